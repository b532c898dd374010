// Scatter, ScatterElements and ScatterND. A kernel must not write one element from several
// invocations, so each element of the result looks for its updates instead: the targets of the
// updates are sorted, and a binary search finds those of an element. Updates of one element are
// applied in their order, so results do not depend on the device.
#include <bit>

#include "codegen/ops/element.h"
#include "codegen/ops/families.h"
#include "codegen/ops/op_builder.h"
#include "codegen/ops/shape_arith.h"
#include "codegen/ops/support.h"

namespace reprise::ops {

namespace {

using kernel::ScalarOp;
using kernel::Val;
using V = OpBuilder::V;

/// Up to this many updates are compared one after another, without sorting.
constexpr int64_t kMaxUnsorted = 16;
/// All updates may reach one element, drivers limit the iterations of a kernel, and an invocation
/// computes up to 32 elements. Reductions of more updates run on the host.
constexpr int64_t kMaxReduced = 1024;

// --- The operators of ONNX -----------------------------------------------------------------------

Status infer_scatter(InferContext& ctx) {
  RP_TRY(require_rank(ctx, 0, 1));
  if (ctx.dtype(2) != ctx.dtype(0))
    return ctx.invalid("data and updates differ in dtype: " + std::string(name_of(ctx.dtype(0))) +
                       " and " + std::string(name_of(ctx.dtype(2))));
  if (ctx.dtype(1) != DType::I32 && ctx.dtype(1) != DType::I64)
    return ctx.invalid("indices '" + ctx.input(1).name + "' are " +
                       std::string(name_of(ctx.dtype(1))) + ", expected int32 or int64");
  return infer_same(ctx);
}

Status infer_scatter_elements(InferContext& ctx) {
  RP_TRY(infer_scatter(ctx));
  if (ctx.rank(1) != ctx.rank(0)) {
    return ctx.invalid("data " + ctx.str(ctx.shape(0)) + " and indices " + ctx.str(ctx.shape(1)) +
                       " differ in rank");
  }
  RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis"), ctx.rank(0)));
  for (size_t d = 0; d < ctx.shape(0).size(); ++d) {
    if (d == static_cast<size_t>(axis)) continue;
    const Expr &data = ctx.shape(0)[d], &indices = ctx.shape(1)[d];
    if (bounds(data - indices, ctx.graph_symbols()).hi < 0) {
      return ctx.invalid("indices " + ctx.str(ctx.shape(1)) + " exceed the data " +
                         ctx.str(ctx.shape(0)));
    }
    ctx.at_least(data, "a dim of the data", indices, "that of the indices");
  }
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

Result<bool> scatter(Rewriter& rw, const Updates& u) {
  OpBuilder c(rw);
  const Shape data = c.shape(c.in(0));
  const DType t = c.dtype(c.in(0));
  if (t == DType::String || is_low_bit(t) || (t == DType::Bool && u.reduction != "none"))
    return false;
  Shape targets = c.shape(c.in(1));
  if (u.axis < 0) targets.pop_back();
  const Expr count = element_count(targets);
  if (count.is_overflow()) return false;
  if (u.reduction != "none" && bounds(count, rw.graph().symbols).hi > kMaxReduced) return false;
  const V flat = flat_targets(c, u, count);
  Shape blocks{count};
  blocks.insert(blocks.end(), data.begin() + static_cast<int64_t>(u.depth), data.end());
  const V updates = c.reshape(c.in(2), std::move(blocks));
  std::vector<V> operands{c.in(0), flat, updates};
  if (!count.is_const() || count.value() > kMaxUnsorted) {
    AttrMap a;
    a.set("axis", int64_t{0});
    a.set("count", std::vector<Expr>{count});
    a.set("largest", int64_t{0});
    if (!c.ok()) return c.finish();
    RP_ASSIGN(const auto sorted, rw.emit_all("TopK", {flat}, std::move(a), 2));
    operands[kTargets] = sorted[0];
    operands.push_back(sorted[1]);
  }
  AttrMap a;
  a.set("depth", static_cast<int64_t>(u.depth));
  a.set("reduction", u.reduction);
  c.replace(0, c.op("ScatterSorted", std::move(operands), std::move(a)));
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
  if (!depth.is_const()) return false;
  Updates u;
  u.depth = static_cast<size_t>(depth.value());
  RP_ASSIGN(u.reduction, reduction_of(ctx));
  return scatter(rw, u);
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

Status infer_scatter_sorted(InferContext& ctx) {
  return infer_same(ctx);
}

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
    const int low = b_.local("low", kernel::kI32), high = b_.local("high", kernel::kI32);
    b_.local_store(low, b_.i32(0));
    b_.local_store(high, ctx_.value(count_));
    const int64_t most = std::max<int64_t>(bounds(count_, ctx_.graph().symbols).hi, 1);
    Status status;
    ctx_.loop(Expr(std::bit_width(static_cast<uint64_t>(most))), [&](const Expr&) {
      const auto step = [&]() -> Status {
        const Val from = b_.local_load(low), to = b_.local_load(high);
        const Val middle = b_.scalar_op(ScalarOp::ShiftRight, {b_.add(from, to), b_.i32(1)});
        const Val open = b_.lt(from, to);
        RP_ASSIGN(const Val target, ctx_.guarded(open, target_, [&] {
          return ctx_.input(kTargets, {ctx_.opaque(middle, count_)});
        }));
        const Val before = or_equal ? b_.le(target, target_) : b_.lt(target, target_);
        const Val moves = b_.logical_and(open, before);
        b_.local_store(low, b_.select(moves, b_.add(middle, b_.i32(1)), from));
        b_.local_store(high, b_.select(b_.logical_and(open, b_.logical_not(before)), middle, to));
        return {};
      };
      if (status.ok()) status = step();
    });
    RP_TRY(status);
    return Val(b_.local_load(low));
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

/// How often an update is read: a little more than once for each element that it reaches.
double scatter_reads(const graph::Graph&, const graph::Node&) {
  return 2;
}

constexpr AttrDecl kScatterAttrs[] = {int_attr("axis", 0)};
constexpr AttrDecl kScatterElementsAttrs[] = {int_attr("axis", 0),
                                              string_attr("reduction", "none")};
constexpr AttrDecl kScatterNDAttrs[] = {string_attr("reduction", "none")};
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
      {.name = "FlatIndex",
       .infer = infer_flat_index,
       .lowering = Lowering::Element,
       .element = flat_index_element,
       .attributes = kFlatIndexAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .layout = LayoutRole::Fixed},
      {.name = "ScatterSorted",
       .infer = infer_scatter_sorted,
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
