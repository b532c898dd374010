// Reductions. The core form has four (sum, max, min, product), keeps dims and has explicit axes.
// The other reductions are formulas over these. Also ArgMax and ArgMin.
#include <algorithm>
#include <limits>

#include "codegen/ops/math/reduce.h"
#include "codegen/ops/row/element.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using kernel::Val;
using V = OpBuilder::V;

/// The axes to reduce, sorted. Empty if noop_with_empty_axes applies.
Result<std::vector<int64_t>> reduced_axes(const InferContext& ctx) {
  RP_ASSIGN(const auto given, ints_attr_or_input(ctx, "axes", 1));
  if (!given || given->empty()) {
    const bool noop = ctx.node_opset() == 0 ? given.has_value()
                                            : ctx.attrs().get_int("noop_with_empty_axes") != 0;
    return noop ? std::vector<int64_t>{} : iota(0, ctx.rank(0));
  }
  RP_ASSIGN(auto axes, ctx.axes(*given, ctx.rank(0)));
  std::sort(axes.begin(), axes.end());
  return axes;
}

bool contains(const std::vector<int64_t>& v, size_t x) {
  return std::find(v.begin(), v.end(), static_cast<int64_t>(x)) != v.end();
}

Shape reduced_shape(const Shape& in, const std::vector<int64_t>& axes, bool keep) {
  Shape out;
  for (size_t d = 0; d < in.size(); ++d) {
    if (!contains(axes, d)) {
      out.push_back(in[d]);
    } else if (keep) {
      out.emplace_back(1);
    }
  }
  return out;
}

/// Contents for a vector or scalar.
template <Expr (*combine)(const Expr&, const Expr&, std::span<const Symbol>)>
void reduced_contents(ContentsContext& ctx) {
  const auto e = ctx.elements(0);
  if (!e || e->empty() || ctx.rank(0) > 1 || depends_on_data(ctx, "axes", 1)) return;
  const auto axes = reduced_axes(ctx);
  if (!axes.ok() || (axes->empty() && ctx.rank(0) == 1)) return;
  Expr acc = (*e)[0];
  for (size_t i = 1; i < e->size(); ++i) acc = combine(acc, (*e)[i], ctx.graph_symbols());
  ctx.set_elements(0, {acc});
}

Expr sum_of(const Expr& a, const Expr& b, std::span<const Symbol>) {
  return a + b;
}
Expr product_of(const Expr& a, const Expr& b, std::span<const Symbol>) {
  return a * b;
}

/// Whether the reduction only compares elements, which bools and narrow integers allow.
bool is_ordered(const graph::Node& n) {
  const auto combine = find(n)->combine;
  return combine == kernel::ScalarOp::Max || combine == kernel::ScalarOp::Min;
}

Status infer_reduce(InferContext& ctx) {
  const bool ordered = is_ordered(ctx.node());
  if (!is_float(ctx.dtype(0)) && !is_int(ctx.dtype(0)) &&
      !(ordered && ctx.dtype(0) == DType::Bool)) {
    return ctx.invalid("input '" + ctx.input(0).name + "' is " +
                       std::string(name_of(ctx.dtype(0))) + ", expected numbers");
  }
  const bool keep = ctx.attrs().get_int("keepdims") != 0;
  if (depends_on_data(ctx, "axes", 1)) {
    RP_ASSIGN(const int64_t n, static_length(ctx, 1));
    const int64_t rank = ctx.rank(0) - (keep ? 0 : n);
    if (rank < 0) return ctx.invalid("has more axes than the tensor");
    ctx.set_output(0, ctx.dtype(0), ctx.fresh_shape(0, static_cast<size_t>(rank)));
    return {};
  }
  RP_ASSIGN(const auto axes, reduced_axes(ctx));
  ctx.set_output(0, ctx.dtype(0), reduced_shape(ctx.shape(0), axes, keep));
  return {};
}

/// Computes a reduction in the wide dtype: casts before and after, and drops the dims at the end.
Result<bool> reduction(Rewriter& rw, V (*formula)(OpBuilder&, V, const std::vector<int64_t>&)) {
  const InferContext ctx(rw.graph(), rw.node());
  if (depends_on_data(ctx, "axes", 1)) return false;
  RP_ASSIGN(const auto axes, reduced_axes(ctx));
  OpBuilder c(rw);
  const V out = rw.node().outputs[0];
  const V result = formula(c, c.cast(c.in(0), accumulate_dtype(c.dtype(c.in(0)))), axes);
  c.replace(0, c.cast(c.reshape(result, c.shape(out)), c.dtype(out)));
  return c.finish();
}

Result<bool> core_reduction(Rewriter& rw) {
  const graph::Node& n = rw.node();
  const bool named = Attributes(n).get<std::vector<int64_t>>("axes") != nullptr;
  if (n.opset == 0 && named && n.inputs.size() == 1) return false;
  const InferContext ctx(rw.graph(), rw.node());
  if (depends_on_data(ctx, "axes", 1)) return false;
  RP_ASSIGN(const auto axes, reduced_axes(ctx));
  OpBuilder c(rw);
  const V out = rw.node().outputs[0];
  const DType t = c.dtype(out);
  const bool ordered = is_ordered(n);
  const DType inner = t == DType::Bool ? DType::U8 : ordered ? t : accumulate_dtype(t);
  const V result = c.reduce(n.op, c.cast(c.in(0), inner), axes);
  c.replace(0, c.cast(c.reshape(result, c.shape(out)), t));
  return c.finish();
}

/// The mean is computed in 32 bits, because sums of 8 or 16 bits would wrap and the count may not
/// fit.
V formula_mean(OpBuilder& c, V x, const std::vector<int64_t>& axes) {
  if (axes.empty()) return x;
  const DType t = c.dtype(x);
  if (!is_int(t) || size_of(t) >= 4) return c.mean(x, axes);
  return c.cast(c.mean(c.cast(x, is_signed_int(t) ? DType::I32 : DType::U32), axes), t);
}
V formula_l1(OpBuilder& c, V x, const std::vector<int64_t>& axes) {
  return c.reduce("ReduceSum", c.op("Abs", {x}), axes);
}
V formula_sum_square(OpBuilder& c, V x, const std::vector<int64_t>& axes) {
  return c.reduce("ReduceSum", c.mul(x, x), axes);
}
/// The square root of integers, rounded down. Negative sums, which have wrapped, give 0. The float
/// root is close, so after one step of Newton's method the root is exact or one too large.
V integer_sqrt(OpBuilder& c, V sum) {
  const DType t = c.dtype(sum);
  const V a = c.max(sum, 0.0);
  const V guess = c.max(c.cast(c.op("Sqrt", {c.cast(a, DType::F32)}), t), 1.0);
  const V root = c.div(c.add(guess, c.div(a, guess)), 2.0);
  const V next = c.op("Less", {c.div(a, c.max(root, 1.0)), root});
  return c.sub(root, c.cast(next, t));
}
V formula_l2(OpBuilder& c, V x, const std::vector<int64_t>& axes) {
  const V squares = formula_sum_square(c, x, axes);
  const DType t = c.dtype(squares);
  return is_float(t) ? c.op("Sqrt", {squares}) : integer_sqrt(c, squares);
}
V formula_log_sum(OpBuilder& c, V x, const std::vector<int64_t>& axes) {
  return c.op("Log", {c.reduce("ReduceSum", x, axes)});
}
/// Subtracts the maximum, so that the exponentials stay finite. An infinite maximum would give inf
/// - inf, but then the result is right without the subtraction.
V formula_log_sum_exp(OpBuilder& c, V x, const std::vector<int64_t>& axes) {
  const V m = c.reduce("ReduceMax", x, axes);
  const V shift = c.where(c.op("IsInf", {m}), c.scalar(c.dtype(x), 0), m);
  const V sum = c.reduce("ReduceSum", c.op("Exp", {c.sub(x, shift)}), axes);
  return c.add(c.op("Log", {sum}), shift);
}

Result<bool> reduce_mean(Rewriter& rw) {
  return reduction(rw, formula_mean);
}
Result<bool> reduce_l1(Rewriter& rw) {
  return reduction(rw, formula_l1);
}
Result<bool> reduce_l2(Rewriter& rw) {
  return reduction(rw, formula_l2);
}
Result<bool> reduce_sum_square(Rewriter& rw) {
  return reduction(rw, formula_sum_square);
}
Result<bool> of_floats(Rewriter& rw, V (*formula)(OpBuilder&, V, const std::vector<int64_t>&)) {
  if (!is_float(rw.input(0).dtype)) return rw.keep("no kernel computes logarithms of integers");
  return reduction(rw, formula);
}
Result<bool> reduce_log_sum(Rewriter& rw) {
  return of_floats(rw, formula_log_sum);
}
Result<bool> reduce_log_sum_exp(Rewriter& rw) {
  return of_floats(rw, formula_log_sum_exp);
}

// --- Elements ------------------------------------------------------------------------------------

/// The lowest or highest value of a dtype, as a value of its compute type.
Val extreme(kernel::Builder& b, DType t, kernel::Type type, bool lowest) {
  if (is_float(t)) {
    const double inf = std::numeric_limits<double>::infinity();
    return b.constant(type, lowest ? -inf : inf);
  }
  const int bits = static_cast<int>(size_of(t)) * 8;
  const uint64_t ones = std::numeric_limits<uint64_t>::max() >> (64 - bits);
  if (!is_signed_int(t)) return b.constant_bits(type, lowest ? 0 : ones);
  return b.constant_bits(type, lowest ? ~(ones >> 1U) : ones >> 1U);
}

/// Calls body for every index of the reduced axes, outermost first.
void loop_axes(ElementContext& ctx, const std::vector<int64_t>& axes, size_t depth, Index& index,
               const std::function<void()>& body) {
  if (depth == axes.size()) {
    body();
    return;
  }
  const auto a = static_cast<size_t>(axes[depth]);
  ctx.loop(ctx.input_shape(0)[a], [&](const Expr& i) {
    index[a] = i;
    loop_axes(ctx, axes, depth + 1, index, body);
  });
}

Status reduce_element(ElementContext& ctx) {
  kernel::Builder& b = ctx.builder();
  const kernel::ScalarOp combine = *find("", ctx.node().op)->combine;
  const DType dtype = ctx.graph().value(ctx.node().outputs[0]).dtype;
  const kernel::Type type = ctx.compute(dtype);
  const int acc = b.local("acc", type);
  b.local_store(acc, reduction_identity(b, combine, dtype, type));
  Index index = ctx.index();
  Status status;
  loop_axes(ctx, Attributes(ctx.node()).get_ints("axes"), 0, index, [&] {
    auto v = ctx.input(0, index);
    if (!v.ok()) {
      status = v.status();
      return;
    }
    b.local_store(acc, b.scalar_op(combine, {b.local_load(acc), *v}));
  });
  ctx.set(b.local_load(acc));
  return status;
}

double reduce_reads(const graph::Graph& g, const graph::Node& n) {
  const Shape& in = g.value(n.inputs[0]).shape;
  double reads = 1;
  for (int64_t a : Attributes(n).get_ints("axes")) {
    const Expr& d = in[static_cast<size_t>(a)];
    reads *= d.is_const() ? static_cast<double>(d.value()) : 1024.0;
  }
  return reads;
}

// --- ArgMax, ArgMin ------------------------------------------------------------------------------

Status infer_arg(InferContext& ctx) {
  RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis"), ctx.rank(0)));
  const bool keep = ctx.attrs().get_int("keepdims") != 0;
  const Shape out = reduced_shape(ctx.shape(0), {axis}, keep);
  // An empty axis has no largest element, so it is refused unless the output is empty, too. In core
  // form the result is 0, on which decompositions of other operators rely.
  const Expr size = ctx.shape(0)[static_cast<size_t>(axis)];
  const Expr results = element_count(out);
  if (ctx.node_opset() != 0 && size.is_const(0) && bounds(results, ctx.graph_symbols()).lo > 0) {
    return ctx.invalid("axis " + std::to_string(axis) + " of " + ctx.str(ctx.shape(0)) +
                       " is empty");
  }
  ctx.at_least(size, "the size of axis " + std::to_string(axis), Expr::min(results, 1),
               "the minimum for a result");
  ctx.set_output(0, DType::I64, out);
  return {};
}

Result<bool> arg(Rewriter& rw) {
  graph::Node& n = rw.node();
  const auto rank = static_cast<int64_t>(rw.input(0).shape.size());
  const int64_t given = Attributes(n).get_int("axis");
  const int64_t axis = given < 0 ? given + rank : given;
  if (Attributes(n).get_int("keepdims") != 0) {
    n.attrs.set("axis", axis);
    n.attrs.erase("keepdims");
    return mark_core(rw);
  }
  OpBuilder c(rw);
  AttrMap a;
  a.set("axis", axis);
  a.set("select_last_index", Attributes(n).get_int("select_last_index"));
  c.replace(0, c.reshape(c.op(n.op, {c.in(0)}, std::move(a)), c.shape(n.outputs[0])));
  return c.finish();
}

/// Whether v replaces the best element so far. NaN precedes all numbers, as in numpy.
Val is_better(kernel::Builder& b, Val v, Val best, bool max, bool last) {
  const Val first = max ? v : best;
  const Val second = max ? best : v;
  const Val better = last ? b.ge(first, second) : b.lt(second, first);
  const kernel::Ty ty = b.type(v).ty;
  if (kernel::class_of(ty) != kernel::kFloat) return better;
  const Val nan = b.scalar_op(kernel::ScalarOp::IsNaN, {v});
  if (last) return b.logical_or(better, nan);
  const Val best_nan = b.scalar_op(kernel::ScalarOp::IsNaN, {best});
  return b.logical_or(better, b.logical_and(nan, b.logical_not(best_nan)));
}

Status arg_element(ElementContext& ctx) {
  kernel::Builder& b = ctx.builder();
  const auto axis = static_cast<size_t>(Attributes(ctx.node()).get_int("axis"));
  const bool max = ctx.node().op == "ArgMax";
  const bool last = Attributes(ctx.node()).get_int("select_last_index") != 0;
  const DType dtype = ctx.graph().value(ctx.node().inputs[0]).dtype;
  const kernel::Type type = ctx.compute(dtype);
  const int best = b.local("best", type);
  const int where = b.local("where", kernel::kI32);
  b.local_store(best, extreme(b, dtype, type, max));
  b.local_store(where, b.i32(0));
  Status status;
  ctx.loop(ctx.input_shape(0)[axis], [&](const Expr& i) {
    Index index = ctx.index();
    index[axis] = i;
    auto v = ctx.input(0, index);
    if (!v.ok()) {
      status = v.status();
      return;
    }
    const Val old = b.local_load(best);
    const Val better = is_better(b, *v, old, max, last);
    b.local_store(best, b.select(better, *v, old));
    b.local_store(where, b.select(better, ctx.value(i), b.local_load(where)));
  });
  const kernel::Type out = ctx.compute(DType::I64);
  const Val result = b.local_load(where);
  ctx.set(out == kernel::kI32 ? result : b.convert(result, out.ty));
  return status;
}

double arg_reads(const graph::Graph& g, const graph::Node& n) {
  const Expr& d = g.value(n.inputs[0]).shape[static_cast<size_t>(Attributes(n).get_int("axis"))];
  return d.is_const() ? static_cast<double>(d.value()) : 1024.0;
}

bool reduces_nothing(const graph::Node& n) {
  return Attributes(n).get_ints("axes").empty();
}

constexpr AttrDecl kReduceAttrs[] = {optional_attr("axes", AttrType::Ints, CoreForm::Axes),
                                     int_attr("keepdims", 1), int_attr("noop_with_empty_axes", 0)};
constexpr AttrDecl kArgAttrs[] = {int_attr("axis", 0, CoreForm::Axis), int_attr("keepdims", 1),
                                  int_attr("select_last_index", 0)};

constexpr OpDef core(std::string_view name, kernel::ScalarOp combine,
                     void (*contents)(ContentsContext&)) {
  return {.name = name,
          .infer = infer_reduce,
          .contents = contents,
          .decompose = core_reduction,
          .lowering = Lowering::Reduce,
          .element = reduce_element,
          .max_inputs = 2,
          .attributes = kReduceAttrs,
          .sensitivity = kernel::Sensitivity::Sum,
          .layout = LayoutRole::Axes,
          .reads_per_element = reduce_reads,
          .combine = combine,
          .is_identity = reduces_nothing};
}

constexpr OpDef derived(std::string_view name, Result<bool> (*decompose)(Rewriter&)) {
  return {.name = name,
          .infer = infer_reduce,
          .decompose = decompose,
          .max_inputs = 2,
          .attributes = kReduceAttrs};
}

constexpr OpDef arg_op(std::string_view name) {
  return {.name = name,
          .infer = infer_arg,
          .decompose = arg,
          .lowering = Lowering::Element,
          .element = arg_element,
          .attributes = kArgAttrs,
          .sensitivity = kernel::Sensitivity::Decision,
          .layout = LayoutRole::Fixed,
          .reads_per_element = arg_reads};
}

}  // namespace

Val reduction_identity(kernel::Builder& b, kernel::ScalarOp combine, DType t, kernel::Type type) {
  if (combine == kernel::ScalarOp::Add) return b.constant(type, 0);
  if (combine == kernel::ScalarOp::Mul) return b.constant(type, 1);
  return extreme(b, t, type, combine == kernel::ScalarOp::Max);
}

std::span<const OpDef> reduce_ops() {
  static constexpr OpDef kOps[] = {
      core("ReduceSum", kernel::ScalarOp::Add, reduced_contents<sum_of>),
      core("ReduceMax", kernel::ScalarOp::Max, reduced_contents<max_of>),
      core("ReduceMin", kernel::ScalarOp::Min, reduced_contents<min_of>),
      core("ReduceProd", kernel::ScalarOp::Mul, reduced_contents<product_of>),
      derived("ReduceMean", reduce_mean),
      derived("ReduceL1", reduce_l1),
      derived("ReduceL2", reduce_l2),
      derived("ReduceSumSquare", reduce_sum_square),
      derived("ReduceLogSum", reduce_log_sum),
      derived("ReduceLogSumExp", reduce_log_sum_exp),
      arg_op("ArgMax"),
      arg_op("ArgMin"),
  };
  return kOps;
}

}  // namespace reprise::ops
