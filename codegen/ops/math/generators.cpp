// Operators that create tensors from sizes and positions: ConstantOfShape, Range, EyeLike, OneHot,
// Trilu.
#include <cmath>

#include "codegen/ops/row/element.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

// --- ConstantOfShape -----------------------------------------------------------------------------

Status infer_constant_of_shape(InferContext& ctx) {
  DType dtype = DType::F32;
  const auto* value = ctx.attrs().get<HostTensor>("value");
  if (value != nullptr) {
    if (value->count() != 1)
      return ctx.invalid("attribute 'value' must hold one number, but holds " +
                         std::to_string(value->count()));
    dtype = value->dtype();
  }
  const auto dims = ctx.elements(0);
  if (!dims) {
    RP_ASSIGN(const int64_t rank, static_length(ctx, 0));
    ctx.set_output(0, dtype, ctx.fresh_shape(0, static_cast<size_t>(rank)));
    return {};
  }
  for (const Expr& d : *dims) {
    if (bounds(d, ctx.graph_symbols()).hi < 0)
      return ctx.invalid("shape has the negative dim " + d.str(ctx.graph_symbols()));
  }
  ctx.set_output(0, dtype, *dims);
  return {};
}

void filled_contents(ContentsContext& ctx) {
  const Expr count = element_count(ctx.output(0).shape);
  if (!is_int(ctx.output(0).dtype) || !count.is_const() || count.value() > kMaxElements) return;
  graph::Value holder;
  holder.constant = *ctx.attrs().get<HostTensor>("value");  // its dtype may be an integer
  const auto number = constant_numbers(holder);
  if (!number || std::abs((*number)[0]) >= 9e15) return;
  const Expr each(static_cast<int64_t>((*number)[0]));
  ctx.set_elements(0, std::vector<Expr>(static_cast<size_t>(count.value()), each));
}

Result<bool> constant_of_shape(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  if (!ctx.elements(0)) return false;
  OpBuilder c(rw);
  const auto* value = c.attrs().get<HostTensor>("value");
  const V one = value != nullptr ? c.constant(value->reshaped({})) : c.scalar(DType::F32, 0);
  c.replace(0, c.expand(one, c.shape(rw.node().outputs[0])));
  return c.finish();
}

// --- Range ---------------------------------------------------------------------------------------

/// max(ceil((limit - start) / delta), 0) for integers. Nothing if it depends on data or on the sign
/// of delta.
std::optional<Expr> range_size(const InferContext& ctx, std::span<const Symbol> table) {
  std::vector<Expr> v;
  for (size_t i = 0; i < 3; ++i) {
    const auto e = ctx.elements(i);
    if (!e || e->size() != 1) return std::nullopt;
    v.push_back((*e)[0]);
  }
  const Bounds delta = bounds(v[2], table);
  if (delta.lo > 0) return max_of(Expr::ceildiv(v[1] - v[0], v[2]), 0, table);
  if (delta.hi < 0) return max_of(Expr::ceildiv(v[0] - v[1], Expr(0) - v[2]), 0, table);
  return std::nullopt;
}

std::optional<Expr> float_range_size(const InferContext& ctx) {
  std::vector<double> v;
  for (size_t i = 0; i < 3; ++i) {
    const auto n = constant_numbers(ctx.input(i));
    if (!n || n->size() != 1) return std::nullopt;
    v.push_back((*n)[0]);
  }
  const double size = std::ceil((v[1] - v[0]) / v[2]);
  if (!(size < 1e12)) return std::nullopt;  // also NaN
  return Expr(size > 0 ? static_cast<int64_t>(size) : 0);
}

Status infer_range(InferContext& ctx) {
  RP_TRY(require_same_dtype(ctx));
  for (size_t i = 0; i < 3; ++i) {
    if (!element_count(ctx.shape(i)).is_const(1)) {
      return ctx.invalid("input '" + ctx.input(i).name + "' must be a scalar, has shape " +
                         ctx.str(ctx.shape(i)));
    }
  }
  const auto delta = constant_numbers(ctx.input(2));
  if (delta && (*delta)[0] == 0) return ctx.invalid("delta is 0, must be nonzero");
  const graph::Value& out = ctx.graph().value(ctx.node().outputs[0]);
  const bool core = ctx.node().opset == 0 && out.has_shape;
  const auto size = core                     ? std::optional(out.shape[0])
                    : is_float(ctx.dtype(0)) ? float_range_size(ctx)
                                             : range_size(ctx, ctx.graph_symbols());
  ctx.set_output(0, ctx.dtype(0), {size ? *size : ctx.fresh_symbol(0, 0)});
  return {};
}

void range_contents(ContentsContext& ctx) {
  const Expr& size = ctx.output(0).shape[0];
  const bool known = size.is_const() && size.value() <= kMaxElements;
  if (!known || ctx.attrs().has("computed")) return;
  const auto start = ctx.elements(0);
  const auto step = ctx.elements(2);
  if (!start || !step) return;
  std::vector<Expr> e;
  for (int64_t i = 0; i < size.value(); ++i) e.push_back((*start)[0] + Expr(i) * (*step)[0]);
  ctx.set_elements(0, std::move(e));
}

Result<bool> range(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  const auto size =
      is_float(ctx.dtype(0)) ? float_range_size(ctx) : range_size(ctx, rw.graph().symbols);
  if (!size) return false;
  return mark_core(rw);
}

Status range_element(ElementContext& ctx) {
  kernel::Builder& b = ctx.builder();
  const Index zero(ctx.input_shape(0).size(), Expr(0));
  const Index zero_delta(ctx.input_shape(2).size(), Expr(0));
  RP_ASSIGN(const kernel::Val start, ctx.input(0, zero));
  RP_ASSIGN(const kernel::Val delta, ctx.input(2, zero_delta));
  const kernel::Val i = ctx.value(ctx.index()[0]);
  const kernel::Type t = b.type(start);
  ctx.set(b.add(start, b.mul(b.type(i) == t ? i : b.convert(i, t.ty), delta)));
  return {};
}

// --- EyeLike, OneHot, Trilu ----------------------------------------------------------------------

Status infer_eye_like(InferContext& ctx) {
  if (ctx.rank(0) != 2)
    return ctx.invalid("input must be a matrix, has shape " + ctx.str(ctx.shape(0)));
  RP_ASSIGN(const DType t, dtype_attr_or(ctx, "dtype", ctx.dtype(0)));
  ctx.set_output(0, t, ctx.shape(0));
  return {};
}

/// Positions along an axis, as a tensor of the given rank: [1, .., size, .., 1].
V positions(OpBuilder& c, const Expr& size, int64_t axis, int64_t rank) {
  return c.along_axis(c.range(size), axis, rank);
}

Result<bool> eye_like(Rewriter& rw) {
  OpBuilder c(rw);
  const Shape s = c.shape(c.in(0));
  const double k = static_cast<double>(c.attrs().get_int("k"));
  const V row = c.add(positions(c, s[0], 0, 2), k);
  const V equal = c.op("Equal", {row, positions(c, s[1], 1, 2)});
  c.replace(0, c.cast(equal, c.dtype(rw.node().outputs[0])));
  return c.finish();
}

std::optional<Expr> one_hot_depth(const InferContext& ctx) {
  if (const auto e = ctx.elements(1)) {
    return e->size() == 1 ? std::optional((*e)[0]) : std::nullopt;
  }
  const auto v = constant_numbers(ctx.input(1));
  if (!v || v->size() != 1 || !(std::abs((*v)[0]) < 1e12)) return std::nullopt;
  return Expr(static_cast<int64_t>((*v)[0]));
}

Status infer_one_hot(InferContext& ctx) {
  if (ctx.rank(2) != 1)
    return ctx.invalid("values must be a vector of two numbers, have shape " +
                       ctx.str(ctx.shape(2)));
  RP_ASSIGN([[maybe_unused]] const Expr two,
            ctx.unify(ctx.shape(2)[0], 2, "the size of values and 2"));
  const int64_t rank = ctx.rank(0) + 1;
  RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis"), rank));
  const auto depth = one_hot_depth(ctx);
  if (depth && bounds(*depth, ctx.graph_symbols()).hi < 0) return ctx.invalid("depth is negative");
  Shape out = ctx.shape(0);
  out.insert(out.begin() + axis, depth ? *depth : ctx.fresh_symbol(0, static_cast<size_t>(axis)));
  ctx.set_output(0, ctx.dtype(2), std::move(out));
  return {};
}

Result<bool> one_hot(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  const auto depth = one_hot_depth(ctx);
  if (!depth) return false;
  OpBuilder c(rw);
  const int64_t rank = ctx.rank(0) + 1;
  const int64_t given = c.attrs().get_int("axis");
  const int64_t axis = given < 0 ? given + rank : given;
  V index = c.cast(c.in(0), DType::I64);
  const V negative = c.op("Less", {index, c.scalar(DType::I64, 0)});
  index = c.where(negative, c.add(index, c.expr_value(*depth, DType::I64)), index);
  Shape with_axis = c.shape(index);
  with_axis.insert(with_axis.begin() + axis, Expr(1));
  const V hot = c.op("Equal", {c.reshape(index, with_axis), positions(c, *depth, axis, rank)});
  const V off = c.reshape(c.slice(c.in(2), {0}, {1}, {1}), {});
  const V on = c.reshape(c.slice(c.in(2), {1}, {1}, {1}), {});
  c.replace(0, c.where(hot, on, off));
  return c.finish();
}

Status infer_trilu(InferContext& ctx) {
  RP_TRY(require_rank(ctx, 0, 2));
  if (ctx.has_input(1) && !element_count(ctx.shape(1)).is_const(1)) {
    return ctx.invalid("k must be a scalar, has shape " + ctx.str(ctx.shape(1)));
  }
  return infer_same(ctx);
}

Result<bool> trilu(Rewriter& rw) {
  OpBuilder c(rw);
  const V x = c.in(0);
  const Shape s = c.shape(x);
  const V row = positions(c, s[s.size() - 2], 0, 2);
  const V column = positions(c, s[s.size() - 1], 1, 2);
  const V k = c.has(1) ? c.reshape(c.cast(c.in(1), DType::I64), {}) : c.scalar(DType::I64, 0);
  const bool upper = c.attrs().get_int("upper") != 0;
  const V keep = c.op(upper ? "GreaterOrEqual" : "LessOrEqual", {c.sub(column, row), k});
  c.replace(0, c.where(keep, x, c.scalar(c.dtype(x), 0)));
  return c.finish();
}

// --- Windows -------------------------------------------------------------------------------------

Status infer_window(InferContext& ctx) {
  RP_ASSIGN(const DType t, dtype_attr(ctx, "output_datatype"));
  const auto size = ctx.elements(0);
  if (ctx.rank(0) != 0)
    return ctx.invalid("size must be a scalar, has shape " + ctx.str(ctx.shape(0)));
  ctx.set_output(0, t, {size ? (*size)[0] : ctx.fresh_symbol(0, 0)});
  return {};
}

constexpr AttrDecl kConstantOfShapeAttrs[] = {optional_attr("value", AttrType::Tensor)};
constexpr AttrDecl kRangeAttrs[] = {core_flag("computed")};
constexpr AttrDecl kEyeLikeAttrs[] = {optional_attr("dtype", AttrType::Int), int_attr("k", 0)};
constexpr AttrDecl kOneHotAttrs[] = {int_attr("axis", -1)};
constexpr AttrDecl kWindowAttrs[] = {int_attr("output_datatype", 1), int_attr("periodic", 1)};
constexpr AttrDecl kTriluAttrs[] = {int_attr("upper", 1)};

constexpr OpDef window(std::string_view name) {
  return {.name = name, .infer = infer_window, .attributes = kWindowAttrs};
}

}  // namespace

std::span<const OpDef> generator_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "ConstantOfShape",
       .infer = infer_constant_of_shape,
       .contents = filled_contents,
       .decompose = constant_of_shape,
       .attributes = kConstantOfShapeAttrs,
       .low_bit = true},
      {.name = "Range",
       .infer = infer_range,
       .contents = range_contents,
       .decompose = range,
       .lowering = Lowering::Element,
       .element = range_element,
       .min_inputs = 3,
       .max_inputs = 3,
       .attributes = kRangeAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .layout = LayoutRole::Fixed},
      {.name = "EyeLike",
       .infer = infer_eye_like,
       .decompose = eye_like,
       .attributes = kEyeLikeAttrs},
      {.name = "OneHot",
       .infer = infer_one_hot,
       .decompose = one_hot,
       .min_inputs = 3,
       .max_inputs = 3,
       .attributes = kOneHotAttrs},
      window("HannWindow"),
      window("HammingWindow"),
      window("BlackmanWindow"),
      {.name = "Trilu",
       .infer = infer_trilu,
       .decompose = trilu,
       .max_inputs = 2,
       .attributes = kTriluAttrs},
  };
  return kOps;
}

}  // namespace reprise::ops
