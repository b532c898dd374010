// Operators that read elements at positions given by other tensors.
#include "codegen/ops/row/contents.h"
#include "codegen/ops/row/element.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"
#include "codegen/ops/row/weight_parts.h"
#include "runtime/base/low_bit.h"

namespace reprise::ops {

namespace {

/// Refuses constant indices that are out of range in every run.
Status check_constant_indices(const InferContext& ctx, const Expr& dim) {
  const auto& index = ctx.input(1);
  if (!index.constant || !dim.is_const()) return {};
  const auto values = constant_numbers(index);
  const auto n = static_cast<double>(dim.value());
  for (double v : *values) {
    if (v >= -n && v < n) continue;
    return ctx.invalid("index " + std::to_string(static_cast<int64_t>(v)) +
                       " is out of range for a dim of size " + std::to_string(dim.value()));
  }
  return {};
}

Result<int64_t> axis_of(const InferContext& ctx) {
  return ctx.axis(ctx.attrs().get_int("axis"), ctx.rank(0));
}

void make_positive(Rewriter& rw, const char* name) {
  const auto rank = static_cast<int64_t>(rw.input(0).shape.size());
  const int64_t axis = Attributes(rw.node()).get_int(name);
  rw.node().attrs.set(name, axis < 0 ? axis + rank : axis);
}

Result<bool> positive_axis(Rewriter& rw) {
  make_positive(rw, "axis");
  return mark_core(rw);
}

/// Contents for a vector and constant indices.
void gather_contents(ContentsContext& ctx) {
  if (const auto at = ctx.constant_ints(1)) gathered_contents(ctx, *at);
}

// --- Gather --------------------------------------------------------------------------------------

Status infer_gather(InferContext& ctx) {
  RP_TRY(require_indices(ctx));
  RP_TRY(require_rank(ctx, 0, 1));
  RP_ASSIGN(const int64_t axis, axis_of(ctx));
  const Shape& data = ctx.shape(0);
  const Shape& index = ctx.shape(1);
  RP_TRY(check_constant_indices(ctx, data[static_cast<size_t>(axis)]));
  Shape out(data.begin(), data.begin() + axis);
  out.insert(out.end(), index.begin(), index.end());
  out.insert(out.end(), data.begin() + axis + 1, data.end());
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

/// A constant index that is in range for every size of the dim becomes a slice.
Result<bool> gather(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  const auto index = ctx.constant_ints(1);
  const int64_t given = Attributes(rw.node()).get_int("axis");
  const int64_t axis = given < 0 ? given + ctx.rank(0) : given;
  const Expr dim = ctx.shape(0)[static_cast<size_t>(axis)];
  if (!index || index->size() != 1) return positive_axis(rw);
  const int64_t i = (*index)[0];
  const Expr needed = i < 0 ? Expr(-i) : Expr(i + 1);
  if (!proven_le(needed, dim, rw.graph().symbols)) return positive_axis(rw);
  OpBuilder c(rw);
  const auto part = c.slice_axis(c.in(0), axis, i < 0 ? dim + Expr(i) : Expr(i), 1);
  c.replace(0, c.reshape(part, c.shape(rw.node().outputs[0])));
  return c.finish();
}

/// A dtype that Where takes and that holds the elements of another.
DType selectable(DType t) {
  if (!is_low_bit(t)) return t;
  return is_low_bit_int(t) ? DType::I8 : DType::F32;
}

/// An index selects from the part in which it is. In the others it selects an element that is not
/// used, but one that is out of range of all of them is so in the last part.
Result<bool> split_gather(Rewriter& rw, int64_t most) {
  const graph::ValueId table = rw.node().inputs[0];
  if (weight_bytes(rw.graph(), table) <= most) return false;
  const auto axis = static_cast<size_t>(Attributes(rw.node()).get_int("axis"));
  const std::vector<PartRange> ranges = part_ranges(rw.graph(), table, axis, most);
  if (ranges.empty()) return false;
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(1));
  const auto number = [&](int64_t v) { return c.scalar(t, static_cast<double>(v)); };
  const int64_t size = ranges.back().begin + ranges.back().size;
  graph::ValueId index =
      c.where(c.op("Less", {c.in(1), number(0)}), c.add(c.in(1), number(size)), c.in(1));
  index = c.where(c.op("Less", {index, number(0)}), number(size), index);
  Shape at(c.shape(c.in(0)).size() - 1, Expr(1));  // of conditions: the index, among other axes
  const Shape chosen = c.shape(index);
  at.insert(at.begin() + static_cast<std::ptrdiff_t>(axis), chosen.begin(), chosen.end());
  AttrMap a;
  a.set("axis", static_cast<int64_t>(axis));
  const DType element = c.dtype(table), chosen_as = selectable(element);
  graph::ValueId result = graph::kNone;
  for (const PartRange& range : ranges) {
    const bool is_last = &range == &ranges.back();
    graph::ValueId local = c.sub(index, number(range.begin));
    const graph::ValueId before = c.op("Less", {local, number(0)});
    const graph::ValueId behind = c.op("GreaterOrEqual", {local, number(range.size)});
    local = c.where(is_last ? before : c.op("Or", {before, behind}), number(0), local);
    const graph::ValueId rows =
        c.cast(c.op("Gather", {part_of_weight(c, table, axis, range), local}, a), chosen_as);
    result = result == graph::kNone ? rows : c.where(c.reshape(before, at), result, rows);
  }
  c.replace(0, c.cast(result, element));
  return c.finish();
}

Status gather_element(ElementContext& ctx) {
  const auto axis = static_cast<size_t>(Attributes(ctx.node()).get_int("axis"));
  const Shape& data = ctx.input_shape(0);
  const size_t index_rank = ctx.input_shape(1).size();
  const Index& out = ctx.index();
  const auto middle = out.begin() + static_cast<std::ptrdiff_t>(axis);
  const Index where(middle, middle + static_cast<std::ptrdiff_t>(index_rank));
  RP_ASSIGN(const kernel::Val i, ctx.input(1, where));
  Index from(out.begin(), middle);
  from.push_back(ctx.checked_index(i, data[axis], true));
  from.insert(from.end(), middle + static_cast<std::ptrdiff_t>(index_rank), out.end());
  RP_ASSIGN(const kernel::Val v, ctx.input(0, from));
  ctx.set(v);
  return {};
}

// --- GatherElements ------------------------------------------------------------------------------

Status infer_gather_elements(InferContext& ctx) {
  RP_TRY(require_indices(ctx));
  RP_TRY(require_rank(ctx, 0, 1));
  RP_ASSIGN(const int64_t axis, axis_of(ctx));
  RP_TRY(require_indices_within(ctx, axis));
  RP_TRY(check_constant_indices(ctx, ctx.shape(0)[static_cast<size_t>(axis)]));
  ctx.set_output(0, ctx.dtype(0), ctx.shape(1));
  return {};
}

Status gather_elements_element(ElementContext& ctx) {
  const auto axis = static_cast<size_t>(Attributes(ctx.node()).get_int("axis"));
  RP_ASSIGN(const kernel::Val i, ctx.input(1, ctx.index()));
  Index from = ctx.index();
  from[axis] = ctx.checked_index(i, ctx.input_shape(0)[axis], true);
  RP_ASSIGN(const kernel::Val v, ctx.input(0, from));
  ctx.set(v);
  return {};
}

// --- GatherND ------------------------------------------------------------------------------------

Status infer_gather_nd(InferContext& ctx) {
  RP_TRY(require_indices(ctx));
  RP_TRY(require_rank(ctx, 0, 1));
  RP_TRY(require_rank(ctx, 1, 1));
  const int64_t batch = ctx.attrs().get_int("batch_dims");
  const Shape& data = ctx.shape(0);
  const Shape& index = ctx.shape(1);
  if (!index.back().is_const()) {
    return ctx.error(Code::Unsupported, "the last dim of the indices must be static, is " +
                                            index.back().str(ctx.graph_symbols()));
  }
  const int64_t depth = index.back().value();
  if (batch < 0 || batch >= ctx.rank(1) || depth < 1 || batch + depth > ctx.rank(0)) {
    return ctx.invalid("indices " + ctx.str(index) + " with batch_dims " + std::to_string(batch) +
                       " do not fit data " + ctx.str(data));
  }
  Shape out(index.begin(), index.end() - 1);
  for (int64_t i = 0; i < batch; ++i) {
    const auto b = static_cast<size_t>(i);
    RP_ASSIGN(out[b], ctx.unify(index[b], data[b], "batch dims"));
  }
  out.insert(out.end(), data.begin() + batch + depth, data.end());
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

Status gather_nd_element(ElementContext& ctx) {
  const auto batch = static_cast<size_t>(Attributes(ctx.node()).get_int("batch_dims"));
  const Shape& data = ctx.input_shape(0);
  const Shape& index = ctx.input_shape(1);
  const auto depth = static_cast<size_t>(index.back().value());
  const Index& out = ctx.index();
  const auto tail = out.begin() + static_cast<std::ptrdiff_t>(index.size() - 1);
  Index from(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(batch));
  Index where(out.begin(), tail);
  where.emplace_back(0);
  for (size_t k = 0; k < depth; ++k) {
    where.back() = Expr(static_cast<int64_t>(k));
    RP_ASSIGN(const kernel::Val i, ctx.input(1, where));
    from.push_back(ctx.checked_index(i, data[batch + k], true));
  }
  from.insert(from.end(), tail, out.end());
  RP_ASSIGN(const kernel::Val v, ctx.input(0, from));
  ctx.set(v);
  return {};
}

// --- TensorScatter -------------------------------------------------------------------------------

/// past_cache and update differ along the axis only, where the update is not longer; write_indices
/// has one position for each element of axis 0.
Status infer_tensor_scatter(InferContext& ctx) {
  RP_TRY(require_rank(ctx, 0, 2));
  if (ctx.dtype(1) != ctx.dtype(0)) {
    return ctx.invalid(
        "past_cache and update differ in dtype: " + std::string(name_of(ctx.dtype(0))) + " and " +
        std::string(name_of(ctx.dtype(1))));
  }
  const std::string mode = ctx.attrs().get_string("mode");
  if (mode != "linear" && mode != "circular")
    return ctx.invalid("mode is '" + mode + "', must be linear or circular");
  RP_ASSIGN(const int64_t axis, axis_of(ctx));
  if (axis == 0) return ctx.invalid("axis is 0, the axis of the batch");
  if (ctx.rank(1) != ctx.rank(0)) {
    return ctx.invalid("past_cache " + ctx.str(ctx.shape(0)) + " and update " +
                       ctx.str(ctx.shape(1)) + " differ in rank");
  }
  for (size_t d = 0; d < ctx.shape(0).size(); ++d) {
    if (d == static_cast<size_t>(axis)) continue;
    RP_TRY(ctx.unify(ctx.shape(0)[d], ctx.shape(1)[d], "dims of past_cache and update").status());
  }
  const Expr& length = ctx.shape(0)[static_cast<size_t>(axis)];
  const Expr& written = ctx.shape(1)[static_cast<size_t>(axis)];
  if (bounds(length - written, ctx.graph_symbols()).hi < 0) {
    return ctx.invalid("update " + ctx.str(ctx.shape(1)) + " is longer than past_cache " +
                       ctx.str(ctx.shape(0)));
  }
  ctx.at_least(length, "the cache", written, "the update");
  if (ctx.has_input(2)) {
    RP_TRY(require_int(ctx, 2));
    if (ctx.rank(2) != 1)
      return ctx.invalid("write_indices must be a vector, have shape " + ctx.str(ctx.shape(2)));
    RP_TRY(ctx.unify(ctx.shape(2)[0], ctx.shape(0)[0], "write_indices and the batch").status());
  }
  return infer_same(ctx);
}

Result<bool> tensor_scatter(Rewriter& rw) {
  if (rw.input(0).dtype == DType::String) return false;
  return positive_axis(rw);
}

/// The position in the update of the element to compute, as an I32; it is out of range where the
/// cache stays.
Result<kernel::Val> position_in_update(ElementContext& ctx, size_t axis) {
  kernel::Builder& b = ctx.builder();
  const kernel::Val at = ctx.value(ctx.index()[axis]);
  const graph::Node& n = ctx.node();
  if (n.inputs.size() < 3 || n.inputs[2] == graph::kNone) return at;
  const Expr& length = ctx.input_shape(0)[axis];
  const Expr& written = ctx.input_shape(1)[axis];
  RP_ASSIGN(const kernel::Val start, ctx.input(2, {ctx.index()[0]}));
  if (Attributes(n).get_string("mode") == "linear") {
    const kernel::Val first = ctx.value(ctx.checked_index(start, length - written + 1, false));
    return b.sub(at, first);
  }
  // A remainder has the sign of its dividend. The positions are those of a ring.
  const kernel::Type wide = b.type(start);
  const kernel::Val size = ctx.value(length);
  const kernel::Val ring = wide == b.type(size) ? size : b.convert(size, wide.ty);
  kernel::Val turned = b.rem(start, ring);
  if (wide != b.type(at)) turned = b.convert(turned, kernel::Ty::I32);
  const kernel::Val distance = b.sub(at, turned);  // above -size, below 2 * size
  const kernel::Val up = b.select(b.lt(distance, b.i32(0)), b.add(distance, size), distance);
  return b.select(b.lt(up, size), up, b.sub(up, size));
}

Status tensor_scatter_element(ElementContext& ctx) {
  const auto axis = static_cast<size_t>(Attributes(ctx.node()).get_int("axis"));
  kernel::Builder& b = ctx.builder();
  RP_ASSIGN(const kernel::Val at, position_in_update(ctx, axis));
  const Expr& written = ctx.input_shape(1)[axis];
  RP_ASSIGN(const kernel::Val kept, ctx.input(0, ctx.index()));
  const auto update = [&] {
    Index index = ctx.index();
    index[axis] = ctx.opaque(at, written);
    return ctx.input(1, index);
  };
  RP_ASSIGN(const kernel::Val v, ctx.guarded(b.in_range(at, ctx.value(written)), kept, update));
  ctx.set(v);
  return {};
}

// --- ReverseSequence -----------------------------------------------------------------------------

/// Axes 0 and 1 are those of the batch and the time, and each sequence of the batch has a length.
Status infer_reverse_sequence(InferContext& ctx) {
  RP_TRY(require_rank(ctx, 0, 2));
  RP_TRY(require_int(ctx, 1));
  RP_ASSIGN(const int64_t batch, ctx.axis(ctx.attrs().get_int("batch_axis"), ctx.rank(0)));
  RP_ASSIGN(const int64_t time, ctx.axis(ctx.attrs().get_int("time_axis"), ctx.rank(0)));
  if (batch + time != 1) {
    return ctx.invalid("batch_axis is " + std::to_string(batch) + " and time_axis is " +
                       std::to_string(time) + "; expected 0 and 1, in either order");
  }
  RP_TRY(require_shape(ctx, 1, "sequence_lens", {ctx.shape(0)[static_cast<size_t>(batch)]}));
  return infer_same(ctx);
}

Result<bool> reverse_sequence(Rewriter& rw) {
  make_positive(rw, "batch_axis");
  make_positive(rw, "time_axis");
  return mark_core(rw);
}

Status reverse_sequence_element(ElementContext& ctx) {
  const auto time = static_cast<size_t>(Attributes(ctx.node()).get_int("time_axis"));
  kernel::Builder& b = ctx.builder();
  const Expr& steps = ctx.input_shape(0)[time];
  RP_ASSIGN(const kernel::Val given, ctx.input(1, {ctx.index()[1 - time]}));
  const kernel::Val length = ctx.value(ctx.checked_index(given, steps + 1, false));
  const kernel::Val at = ctx.value(ctx.index()[time]);
  const kernel::Val mirrored = b.sub(b.sub(length, b.i32(1)), at);
  Index from = ctx.index();
  from[time] = ctx.opaque(b.select(b.lt(at, length), mirrored, at), steps);
  RP_ASSIGN(const kernel::Val v, ctx.input(0, from));
  ctx.set(v);
  return {};
}

constexpr AttrDecl kReverseSequenceAttrs[] = {int_attr("batch_axis", 1, CoreForm::Axis),
                                              int_attr("time_axis", 0, CoreForm::Axis)};
constexpr OpDef kReverseSequence = {.name = "ReverseSequence",
                                    .infer = infer_reverse_sequence,
                                    .decompose = reverse_sequence,
                                    .lowering = Lowering::Element,
                                    .element = reverse_sequence_element,
                                    .min_inputs = 2,
                                    .max_inputs = 2,
                                    .attributes = kReverseSequenceAttrs,
                                    .sensitivity = kernel::Sensitivity::None,
                                    .layout = LayoutRole::Fixed,
                                    .moves = true};

constexpr AttrDecl kTensorScatterAttrs[] = {int_attr("axis", -2, CoreForm::Axis),
                                            string_attr("mode", "linear")};
constexpr AttrDecl kGatherAttrs[] = {int_attr("axis", 0, CoreForm::Axis)};
constexpr AttrDecl kGatherNDAttrs[] = {int_attr("batch_dims", 0)};

}  // namespace

std::span<const OpDef> gather_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "Gather",
       .infer = infer_gather,
       .contents = gather_contents,
       .decompose = gather,
       .lowering = Lowering::Element,
       .element = gather_element,
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = kGatherAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .host_rounding = HostRounding::Moves,
       .quantized_input = 0,
       .layout = LayoutRole::Fixed,
       .split = split_gather,
       .moves = true,
       .low_bit = true},
      {.name = "GatherElements",
       .infer = infer_gather_elements,
       .contents = gather_contents,
       .decompose = positive_axis,
       .lowering = Lowering::Element,
       .element = gather_elements_element,
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = kGatherAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .layout = LayoutRole::Fixed,
       .moves = true,
       .low_bit = true},
      {.name = "GatherND",
       .infer = infer_gather_nd,
       .decompose = mark_core,
       .lowering = Lowering::Element,
       .element = gather_nd_element,
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = kGatherNDAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .layout = LayoutRole::Fixed,
       .moves = true,
       .low_bit = true},
      {.name = "TensorScatter",
       .infer = infer_tensor_scatter,
       .decompose = tensor_scatter,
       .lowering = Lowering::Element,
       .element = tensor_scatter_element,
       .min_inputs = 2,
       .max_inputs = 3,
       .attributes = kTensorScatterAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .layout = LayoutRole::Fixed,
       .moves = true},
      kReverseSequence,
  };
  return kOps;
}

}  // namespace reprise::ops
