// Scatter, ScatterElements and ScatterND. A kernel must not write one element from several
// invocations, so each element of the result looks for its updates instead: the targets of the
// updates are sorted, and a binary search finds those of an element. Updates of one element are
// applied in their order, so results do not depend on the device.
#include <algorithm>

#include "codegen/ops/index/binary_search.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using kernel::ScalarOp;
using kernel::Val;
using V = OpBuilder::V;

/// Up to this many updates are compared one after another, without sorting.
constexpr int64_t kMaxUnsorted = 16;
/// All updates may reach one element, which one invocation then computes. Reductions of more
/// updates would exceed the time that drivers give a kernel; the host computes them.
constexpr int64_t kMaxReduced = int64_t{1} << 20;

// --- The operators of ONNX -----------------------------------------------------------------------

Status infer_scatter(InferContext& ctx) {
  RP_TRY(require_indices(ctx));
  RP_TRY(require_rank(ctx, 0, 1));
  if (ctx.dtype(2) != ctx.dtype(0))
    return ctx.invalid("data and updates differ in dtype: " + std::string(name_of(ctx.dtype(0))) +
                       " and " + std::string(name_of(ctx.dtype(2))));
  return infer_same(ctx);
}

Status infer_scatter_elements(InferContext& ctx) {
  RP_TRY(infer_scatter(ctx));
  RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis"), ctx.rank(0)));
  RP_TRY(require_indices_within(ctx, axis));
  return require_shape(ctx, 2, "updates", ctx.shape(1));
}

Status infer_scatter_nd(InferContext& ctx) {
  RP_TRY(infer_scatter(ctx));
  RP_TRY(require_rank(ctx, 1, 1));
  const Shape &data = ctx.shape(0), &indices = ctx.shape(1);
  if (!indices.back().is_const()) return {};
  const int64_t depth = indices.back().value();
  if (depth < 1 || depth > ctx.rank(0)) {
    return ctx.invalid("indices " + ctx.str(indices) + " do not fit data " + ctx.str(data));
  }
  Shape expected(indices.begin(), indices.end() - 1);
  expected.insert(expected.end(), data.begin() + depth, data.end());
  return require_shape(ctx, 2, "updates", expected);
}

/// The operands of ScatterSorted. There are positions if the targets are sorted.
enum Operand : uint8_t { kData, kTargets, kUpdates, kPositions };

/// What the operators have in common: updates of blocks of the data.
struct Updates {
  size_t depth = 0;   // the leading axes of the data that a target addresses
  int64_t axis = -1;  // of ScatterElements; -1: targets are tuples of indices
  std::string reduction = "none";
};

/// The row-major positions of the targets, as a vector.
V flat_targets(OpBuilder& c, const Updates& u, const Expr& count) {
  const Shape data = c.shape(c.in(0));
  AttrMap a;
  a.set("axis", u.axis);
  a.set("dims", std::vector<Expr>(data.begin(), data.begin() + static_cast<int64_t>(u.depth)));
  return c.reshape(c.op("FlatIndex", {c.in(1)}, std::move(a)), {count});
}

/// The data with the updates, in row-major order.
Result<V> scattered(OpBuilder& c, const Updates& u, V data, V flat, V updates) {
  const Expr count = element_count(c.shape(flat));
  std::vector<V> operands{data, flat, updates};
  if (!count.is_const() || count.value() > kMaxUnsorted) {
    AttrMap a;
    a.set("axis", int64_t{0});
    a.set("count", std::vector<Expr>{count});
    a.set("largest", int64_t{0});
    if (!c.ok()) return graph::kNone;
    RP_ASSIGN(const auto sorted, c.rewriter().emit_all("TopK", {flat}, std::move(a), 2));
    operands[kTargets] = sorted[0];
    operands.push_back(sorted[1]);
  }
  AttrMap a;
  a.set("depth", static_cast<int64_t>(u.depth));
  a.set("reduction", u.reduction);
  return c.op("ScatterSorted", std::move(operands), std::move(a));
}

Result<bool> scatter(Rewriter& rw, const Updates& u) {
  OpBuilder c(rw);
  const Shape data = c.shape(c.in(0));
  const DType t = c.dtype(c.in(0));
  if (t == DType::Bool && u.reduction != "none") return rw.keep("kernels do not reduce bool");
  if (is_low_bit(t)) return rw.keep("kernels do not scatter low-bit types");
  if (t == DType::String) return false;
  Shape targets = c.shape(c.in(1));
  if (u.axis < 0) targets.pop_back();
  const Expr count = element_count(targets);
  if (count.is_overflow()) return rw.keep("the number of updates may leave 64 bits");
  if (u.reduction != "none" && bounds(count, rw.graph().symbols).lo > kMaxReduced)
    return rw.keep("kernels reduce at most " + std::to_string(kMaxReduced) + " updates");
  const V flat = flat_targets(c, u, count);
  Shape blocks{count};
  blocks.insert(blocks.end(), data.begin() + static_cast<int64_t>(u.depth), data.end());
  RP_ASSIGN(const V result, scattered(c, u, c.in(0), flat, c.reshape(c.in(2), std::move(blocks))));
  c.replace(0, result);
  return c.finish();
}

Result<std::string> reduction_of(const InferContext& ctx) {
  const std::string r = ctx.attrs().get_string("reduction");
  for (const char* known : {"none", "add", "mul", "max", "min"}) {
    if (r == known) return r;
  }
  return ctx.invalid("attribute 'reduction' is '" + r + "', must be none, add, mul, max or min");
}

Result<bool> scatter_elements(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  Updates u;
  u.depth = ctx.shape(0).size();
  RP_ASSIGN(u.axis, ctx.axis(ctx.attrs().get_int("axis"), ctx.rank(0)));
  if (rw.node().op != "Scatter") {
    RP_ASSIGN(u.reduction, reduction_of(ctx));
  }
  return scatter(rw, u);
}

Result<bool> scatter_nd(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  const Expr& depth = ctx.shape(1).back();
  if (!depth.is_const()) return rw.keep("the number of indices of an element varies");
  Updates u;
  u.depth = static_cast<size_t>(depth.value());
  RP_ASSIGN(u.reduction, reduction_of(ctx));
  return scatter(rw, u);
}

/// The shape of the result without output_shape, to which the indices refer.
Result<Shape> unpooled_shape(const InferContext& ctx) {
  const auto kernel = ctx.attrs().get_ints("kernel_shape");
  const size_t n = ctx.shape(0).size() - 2;
  const auto strides = ctx.attrs().get_or("strides", std::vector<int64_t>(n, 1));
  const auto pads = ctx.attrs().get_or("pads", std::vector<int64_t>(2 * n, 0));
  if (kernel.size() != n || strides.size() != n || pads.size() != 2 * n) {
    return ctx.invalid(
        "kernel_shape, strides and pads do not have the rank of the spatial dims of " +
        ctx.str(ctx.shape(0)));
  }
  Shape out = ctx.shape(0);
  for (size_t d = 0; d < n; ++d) {
    out[2 + d] =
        (out[2 + d] - 1) * Expr(strides[d]) + Expr(kernel[d]) - Expr(pads[d]) - Expr(pads[n + d]);
  }
  return out;
}

Status infer_max_unpool(InferContext& ctx) {
  RP_TRY(require_rank(ctx, 0, 3));
  RP_TRY(require_indices(ctx));
  RP_TRY(require_shape(ctx, 1, "indices", ctx.shape(0)));
  RP_ASSIGN(Shape out, unpooled_shape(ctx));
  if (ctx.has_input(2)) {
    const auto wanted = ctx.elements(2);
    if (wanted && wanted->size() != out.size())
      return ctx.invalid("output_shape has " + std::to_string(wanted->size()) +
                         " entries, expected " + std::to_string(out.size()));
    out = wanted ? *wanted : ctx.fresh_shape(0, out.size());
  }
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

/// Without output_shape: zeros, of which the indices replace some.
Result<bool> max_unpool(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  if (ctx.has_input(2)) return rw.keep("output_shape has no device form");
  OpBuilder c(rw);
  const Shape out = c.shape(rw.node().outputs[0]);
  const Expr count = element_count(c.shape(c.in(1))), total = element_count(out);
  if (count.is_overflow() || total.is_overflow()) return false;
  AttrMap a;
  a.set("axis", int64_t{0});
  a.set("dims", std::vector<Expr>{total});
  const V flat = c.op("FlatIndex", {c.reshape(c.in(1), {count})}, std::move(a));
  const V zeros = c.expand(c.scalar(c.dtype(c.in(0)), 0), {total});
  RP_ASSIGN(const V result, scattered(c, {1, 0, "none"}, zeros, flat, c.reshape(c.in(0), {count})));
  c.replace(0, c.reshape(result, out));
  return c.finish();
}

// --- FlatIndex -----------------------------------------------------------------------------------

/// The row-major position in a tensor with the dims of the attribute. With an axis, an index
/// replaces the coordinate of its own position along it; without, the last axis has all
/// coordinates.
Status infer_flat_index(InferContext& ctx) {
  RP_TRY(require_rank(ctx, 0, 1));
  Shape out = ctx.shape(0);
  if (ctx.attrs().get_int("axis") < 0) out.pop_back();
  ctx.set_output(0, DType::I32, std::move(out));
  return {};
}

Status flat_index_element(ElementContext& ctx) {
  const Attributes attrs(ctx.node());
  const Shape dims = attrs.get_exprs("dims");
  const int64_t axis = attrs.get_int("axis");
  Index at = ctx.index();
  if (axis >= 0) {
    RP_ASSIGN(const Val i, ctx.input(0, at));
    const auto a = static_cast<size_t>(axis);
    at[a] = ctx.checked_index(i, dims[a], true);
  } else {
    Index coordinates;
    for (size_t d = 0; d < dims.size(); ++d) {
      Index from = at;
      from.emplace_back(static_cast<int64_t>(d));
      RP_ASSIGN(const Val i, ctx.input(0, from));
      coordinates.push_back(ctx.checked_index(i, dims[d], true));
    }
    at = std::move(coordinates);
  }
  ctx.set(ctx.value(linearize(at, dims)));
  return {};
}

// --- ScatterSorted -------------------------------------------------------------------------------

class ScatterElement {
 public:
  explicit ScatterElement(ElementContext& ctx)
      : ctx_(ctx),
        b_(ctx.builder()),
        count_(ctx.input_shape(kTargets)[0]),
        reduction_(Attributes(ctx.node()).get_string("reduction")),
        result_(ctx.compute(ctx.graph().value(ctx.node().outputs[0]).dtype)),
        type_(result_ == kernel::kF16 && reduction_ != "none" ? kernel::kF32 : result_) {
    const auto depth = static_cast<size_t>(Attributes(ctx.node()).get_int("depth"));
    const auto split = ctx.index().begin() + static_cast<int64_t>(depth);
    block_.assign(split, ctx.index().end());
    const Shape& data = ctx.input_shape(kData);
    const Shape dims(data.begin(), data.begin() + static_cast<int64_t>(depth));
    target_ = ctx.value(linearize(Index(ctx.index().begin(), split), dims));
  }

  Status run() {
    RP_ASSIGN(const Val data, ctx_.input(kData, ctx_.index()));
    const bool sorted = ctx_.node().inputs.size() > kPositions;
    RP_ASSIGN(const Val r, !sorted                ? among_all(data)
                           : reduction_ == "none" ? last(data)
                                                  : among_sorted(data));
    ctx_.set(r);
    return {};
  }

 private:
  Result<Val> update(const Expr& position) {
    Index at{position};
    at.insert(at.end(), block_.begin(), block_.end());
    return ctx_.input(kUpdates, at);
  }

  /// The update at a place in the order of the targets.
  Result<Val> sorted_update(const Expr& place) {
    RP_ASSIGN(Val position, ctx_.input(kPositions, {place}));
    if (b_.type(position).ty != kernel::Ty::I32) position = b_.convert(position, kernel::Ty::I32);
    return update(ctx_.opaque(position, count_));
  }

  Val wide(Val v) const { return b_.type(v) == type_ ? v : Val(b_.convert(v, type_.ty)); }
  Val narrow(Val v) const { return type_ == result_ ? v : Val(b_.convert(v, result_.ty)); }

  Val combined(Val sum, Val v) const {
    if (reduction_ == "add") return b_.add(sum, wide(v));
    if (reduction_ == "mul") return b_.mul(sum, wide(v));
    if (reduction_ == "max") return b_.max(sum, wide(v));
    if (reduction_ == "min") return b_.min(sum, wide(v));
    return v;
  }

  /// Applies every update whose target is this element.
  Result<Val> among_all(Val data) {
    const int sum = b_.local("scattered", type_);
    b_.local_store(sum, wide(data));
    Status status;
    ctx_.loop(count_, [&](const Expr& i) {
      const auto step = [&]() -> Status {
        RP_ASSIGN(const Val target, ctx_.input(kTargets, {i}));
        const Val old = b_.local_load(sum);
        RP_ASSIGN(const Val v, ctx_.guarded(b_.eq(target, target_), old, [&]() -> Result<Val> {
          RP_ASSIGN(const Val found, update(i));
          return combined(old, found);
        }));
        b_.local_store(sum, v);
        return {};
      };
      if (status.ok()) status = step();
    });
    RP_TRY(status);
    return narrow(b_.local_load(sum));
  }

  /// The number of targets that are less than this element or, if `or_equal`, not greater.
  Result<Val> targets_before(bool or_equal) {
    return elements_before(ctx_, {kTargets, {}, count_}, target_, or_equal);
  }

  /// The last update, or the data if there is none.
  Result<Val> last(Val data) {
    RP_ASSIGN(const Val end, targets_before(true));
    const Val place = b_.sub(end, b_.i32(1));
    return ctx_.guarded(b_.lt(b_.i32(0), end), data, [&]() -> Result<Val> {
      const Expr at = ctx_.opaque(place, count_);
      RP_ASSIGN(const Val target, ctx_.input(kTargets, {at}));
      return ctx_.guarded(b_.eq(target, target_), data, [&] { return sorted_update(at); });
    });
  }

  Result<Val> among_sorted(Val data) {
    RP_ASSIGN(const Val first, targets_before(false));
    RP_ASSIGN(const Val end, targets_before(true));
    const int sum = b_.local("scattered", type_);
    b_.local_store(sum, wide(data));
    Status status;
    ctx_.loop(ctx_.opaque(b_.sub(end, first), count_ + 1), [&](const Expr& i) {
      const auto step = [&]() -> Status {
        const Val place = b_.add(first, ctx_.value(i));
        RP_ASSIGN(const Val v, sorted_update(ctx_.opaque(place, count_)));
        b_.local_store(sum, combined(b_.local_load(sum), v));
        return {};
      };
      if (status.ok()) status = step();
    });
    RP_TRY(status);
    return narrow(b_.local_load(sum));
  }

  ElementContext& ctx_;
  kernel::Builder& b_;
  Expr count_;
  std::string reduction_;
  kernel::Type result_, type_;
  Index block_;  // the index within an update
  Val target_;
};

Status scatter_sorted_element(ElementContext& ctx) {
  return ScatterElement(ctx).run();
}

/// All updates may reach one element that combines them. Without a reduction, an element searches
/// for its last update.
double scatter_reads(const graph::Graph& g, const graph::Node& n) {
  const Expr& count = g.value(n.inputs[kTargets]).shape[0];
  if (Attributes(n).get_string("reduction") == "none") return std::max(2.0, search_reads(g, count));
  const int64_t most = bounds(count, g.symbols).hi;
  return static_cast<double>(std::clamp<int64_t>(most, 2, kMaxReduced));
}

constexpr AttrDecl kScatterAttrs[] = {int_attr("axis", 0)};
constexpr AttrDecl kScatterElementsAttrs[] = {int_attr("axis", 0),
                                              string_attr("reduction", "none")};
constexpr AttrDecl kScatterNDAttrs[] = {string_attr("reduction", "none")};
constexpr AttrDecl kMaxUnpoolAttrs[] = {required_attr("kernel_shape", AttrType::Ints),
                                        optional_attr("pads", AttrType::Ints),
                                        optional_attr("strides", AttrType::Ints)};
constexpr AttrDecl kFlatIndexAttrs[] = {int_attr("axis", -1), core_attr("dims", CoreForm::Exprs)};
constexpr AttrDecl kScatterSortedAttrs[] = {required_attr("depth", AttrType::Int),
                                            string_attr("reduction", "none")};

}  // namespace

std::span<const OpDef> scatter_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "Scatter",
       .infer = infer_scatter_elements,
       .decompose = scatter_elements,
       .min_inputs = 3,
       .max_inputs = 3,
       .attributes = kScatterAttrs},
      {.name = "ScatterElements",
       .infer = infer_scatter_elements,
       .decompose = scatter_elements,
       .min_inputs = 3,
       .max_inputs = 3,
       .attributes = kScatterElementsAttrs},
      {.name = "ScatterND",
       .infer = infer_scatter_nd,
       .decompose = scatter_nd,
       .min_inputs = 3,
       .max_inputs = 3,
       .attributes = kScatterNDAttrs},
      {.name = "MaxUnpool",
       .infer = infer_max_unpool,
       .decompose = max_unpool,
       .min_inputs = 2,
       .max_inputs = 3,
       .attributes = kMaxUnpoolAttrs},
      {.name = "FlatIndex",
       .infer = infer_flat_index,
       .lowering = Lowering::Element,
       .element = flat_index_element,
       .attributes = kFlatIndexAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .layout = LayoutRole::Fixed},
      {.name = "ScatterSorted",
       .infer = infer_same,
       .lowering = Lowering::Element,
       .element = scatter_sorted_element,
       .min_inputs = 3,
       .max_inputs = 4,
       .attributes = kScatterSortedAttrs,
       .sensitivity = kernel::Sensitivity::Sum,
       .layout = LayoutRole::Fixed,
       .reads_per_element = scatter_reads},
  };
  return kOps;
}

}  // namespace reprise::ops
