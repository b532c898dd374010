// NonZero, Compress and Unique: operators that select elements, as many as the data say. On a
// device, each is
//
//   before = CumSum(flags)                how many elements are selected up to each one
//   CountedRows(before[last])             on the host: gives the number, a symbol, its value
//   at = SearchCounts(before)             where the first, second, ... selected element is
//
// so that a run reads back one number, and only selected elements are moved.
#include <algorithm>

#include "codegen/graph/size_hint.h"
#include "codegen/ops/index/binary_search.h"
#include "codegen/ops/row/counted_rows.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using kernel::Val;
using V = OpBuilder::V;

// --- Inference -----------------------------------------------------------------------------------

/// A symbol for the number of selected elements of `all`.
Expr selected_count(InferContext& ctx, size_t axis, const Expr& all) {
  const int64_t most = bounds(all, ctx.graph_symbols()).hi;
  return ctx.fresh_symbol(0, axis, std::clamp<int64_t>(most, 0, (int64_t{1} << 31) - 1));
}

Status infer_nonzero(InferContext& ctx) {
  const Expr count = selected_count(ctx, 1, element_count(ctx.shape(0)));
  ctx.set_output(0, DType::I64, {Expr(ctx.rank(0)), count});
  return {};
}

Status infer_compress(InferContext& ctx) {
  if (ctx.dtype(1) != DType::Bool || ctx.rank(1) != 1) {
    return ctx.invalid("the condition '" + ctx.input(1).name + "' is " +
                       std::string(name_of(ctx.dtype(1))) + ctx.str(ctx.shape(1)) +
                       "; expected bool with one axis");
  }
  const bool flat = !ctx.attrs().has("axis");
  Shape out = flat ? Shape{element_count(ctx.shape(0))} : ctx.shape(0);
  size_t at = 0;
  if (!flat) {
    RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis"), ctx.rank(0)));
    at = static_cast<size_t>(axis);
  }
  const Expr &all = out[at], &conditions = ctx.shape(1)[0];
  if (bounds(all - conditions, ctx.graph_symbols()).hi < 0) {
    return ctx.invalid("the condition has " + ctx.str(ctx.shape(1)) + " elements for an axis of " +
                       ctx.str({all}));
  }
  ctx.at_least(all, "the axis", conditions, "that of the condition");
  out[at] = selected_count(ctx, at, conditions);
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

Status infer_unique(InferContext& ctx) {
  if (ctx.attrs().has("axis")) {
    RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis"), ctx.rank(0)));
    Shape out = ctx.shape(0);
    const auto at = static_cast<size_t>(axis);
    const Expr all = out[at];
    out[at] = selected_count(ctx, at, all);
    const Expr unique = out[at];
    ctx.set_output(0, ctx.dtype(0), std::move(out));
    ctx.set_output(1, DType::I64, {unique});
    ctx.set_output(2, DType::I64, {all});
    ctx.set_output(3, DType::I64, {unique});
    return {};
  }
  const Expr all = element_count(ctx.shape(0));
  const Expr count = selected_count(ctx, 0, all);
  ctx.set_output(0, ctx.dtype(0), {count});
  ctx.set_output(1, DType::I64, {count});
  ctx.set_output(2, DType::I64, {all});
  ctx.set_output(3, DType::I64, {count});
  return {};
}

// --- Decompositions ------------------------------------------------------------------------------

/// The elements that a vector of flags selects.
struct Selection {
  V before = graph::kNone;  // I32, per flag: how many are set up to and including it
  Expr rows;                // how many are set

  /// The positions of the first, second, ... flag that is set, I32. With `first` = 2, those of the
  /// second, the third, and so on, and at the end the number of flags.
  V positions(OpBuilder& c, int64_t first = 1) const {
    AttrMap a;
    a.set("first", first);
    a.set("count", std::vector<Expr>{rows});
    return c.op("SearchCounts", {before}, std::move(a));
  }
};

/// Counts the flags, of which there are `count`. The symbol `rows` of the node's output gets the
/// number as its value.
Result<Selection> select(OpBuilder& c, V flags, const Expr& count, const Expr& rows) {
  AttrMap a;
  a.set("axis", int64_t{0});
  a.set("exclusive", int64_t{0});
  a.set("reverse", int64_t{0});
  Selection s{c.op("CumSum", {c.cast(flags, DType::I32)}, std::move(a)), rows};
  // The last count, or 0 if there are no flags.
  const V zero = c.constant(HostTensor::from<int32_t>(DType::I32, {1}, {0}));
  const V last = c.slice(c.concat({zero, s.before}, 0), {count}, {1}, {Expr(1)});
  if (c.ok()) RP_TRY(give_size(c.rewriter(), last, rows));
  return s;
}

/// Whether kernels can select elements of input 0 by `count` flags, which input `source` decides.
/// The size of the result must be a symbol of its own, and constants are folded.
bool can_select(const InferContext& ctx, size_t source, const Expr& count, const Expr& rows) {
  return !count.is_overflow() && rows.as_symbol() && ctx.dtype(0) != DType::String &&
         !is_low_bit(ctx.dtype(0)) && !ctx.input(source).constant;
}

Result<bool> nonzero(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  OpBuilder c(rw);
  const Shape dims = c.shape(c.in(0));
  const Expr count = element_count(dims);
  const Expr rows = rw.graph().value(rw.node().outputs[0]).shape[1];
  if (dims.empty() || !can_select(ctx, 0, count, rows)) return false;
  const V flags = c.reshape(c.cast(c.in(0), DType::Bool), {count});
  RP_ASSIGN(const Selection s, select(c, flags, count, rows));
  const V at = s.positions(c);
  std::vector<V> coordinates;
  for (size_t d = 0; d < dims.size(); ++d) {
    V i = at;
    if (d + 1 < dims.size())
      i = c.div(i, c.expr_value(product(dims, d + 1, dims.size()), DType::I32));
    if (d > 0) i = c.op("Mod", {i, c.expr_value(dims[d], DType::I32)});
    coordinates.push_back(c.reshape(i, {Expr(1), rows}));
  }
  const V all = coordinates.size() == 1 ? coordinates[0] : c.concat(std::move(coordinates), 0);
  c.replace_cast(0, all);
  return c.finish();
}

Result<bool> compress(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  const bool flat = !ctx.attrs().has("axis");
  int64_t axis = 0;
  if (!flat) {
    RP_ASSIGN(axis, ctx.axis(ctx.attrs().get_int("axis"), ctx.rank(0)));
  }
  const Expr conditions = ctx.shape(1)[0];
  const Expr rows = rw.graph().value(rw.node().outputs[0]).shape[static_cast<size_t>(axis)];
  if (!can_select(ctx, 1, conditions, rows)) return false;
  OpBuilder c(rw);
  RP_ASSIGN(const Selection s, select(c, c.in(1), conditions, rows));
  const V x = flat ? c.reshape(c.in(0), {element_count(ctx.shape(0))}) : c.in(0);
  AttrMap a;
  a.set("axis", axis);
  c.replace(0, c.op("Gather", {x, s.positions(c)}, std::move(a)));
  return c.finish();
}

V gathered(OpBuilder& c, V x, V at) {
  AttrMap a;
  a.set("axis", int64_t{0});
  return c.op("Gather", {x, at}, std::move(a));
}

/// The elements of a vector in ascending order, equal ones in their order, and their positions.
struct Sorted {
  V values = graph::kNone, positions = graph::kNone;
};

Result<Sorted> sorted(OpBuilder& c, V x, const Expr& count) {
  if (!c.ok()) return Sorted{};
  AttrMap a;
  a.set("axis", int64_t{0});
  a.set("count", std::vector<Expr>{count});
  a.set("largest", int64_t{0});
  RP_ASSIGN(const auto results, c.rewriter().emit_all("TopK", {x}, std::move(a), 2));
  return Sorted{results[0], results[1]};
}

/// The inverse of a permutation of `count` numbers.
Result<V> inverse_of(OpBuilder& c, V permutation, const Expr& count) {
  RP_ASSIGN(const Sorted s, sorted(c, c.cast(permutation, DType::I32), count));
  return s.positions;
}

/// The outputs of Unique, per group of equal elements but `group`, which is per element.
struct Groups {
  V values, first, group, counts;
};

/// In the order of the groups' first elements.
Result<Groups> by_first_position(OpBuilder& c, const Groups& g, const Expr& rows) {
  RP_ASSIGN(const Sorted order, sorted(c, c.cast(g.first, DType::I32), rows));
  RP_ASSIGN(const V rank, inverse_of(c, order.positions, rows));
  return Groups{gathered(c, g.values, order.positions), order.values,
                gathered(c, c.cast(rank, DType::I32), g.group),
                gathered(c, g.counts, order.positions)};
}

/// Without an axis. A group starts in the sorted elements where an element differs from that before
/// it.
Result<bool> unique(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  const Expr count = element_count(ctx.shape(0));
  const Expr rows = rw.graph().value(rw.node().outputs[0]).shape[0];
  if (ctx.attrs().has("axis") || ctx.dtype(0) == DType::Bool || !can_select(ctx, 0, count, rows))
    return false;
  OpBuilder c(rw);
  const V x = c.reshape(c.in(0), {count});
  RP_ASSIGN(const Sorted s, sorted(c, x, count));
  const V at_sorted = c.positions(count);
  const V before = gathered(c, s.values, c.max(c.sub(at_sorted, 1), 0));
  const V starts = c.op("Or", {c.op("NotEqual", {s.values, before}),
                               c.op("Less", {at_sorted, c.scalar(DType::I32, 1)})});
  RP_ASSIGN(const Selection selected, select(c, starts, count, rows));
  const V at = selected.positions(c);
  RP_ASSIGN(const V place, inverse_of(c, s.positions, count));
  Groups g{gathered(c, s.values, at), gathered(c, s.positions, at),
           c.sub(gathered(c, selected.before, place), 1), c.sub(selected.positions(c, 2), at)};
  if (c.attrs().get_int("sorted") == 0) {
    RP_ASSIGN(g, by_first_position(c, g, rows));
  }
  const V results[] = {g.values, g.first, g.group, g.counts};
  for (size_t i = 0; i < 4; ++i) c.replace_cast(i, results[i]);
  return c.finish();
}

// --- CountedRows ---------------------------------------------------------------------------------

/// The size is a symbol, that of the value that a decomposition replaces.
Status infer_counted_rows(InferContext& ctx) {
  if (ctx.graph().value(ctx.node().outputs[0]).has_shape) return {};
  ctx.set_output(0, DType::Bool, {ctx.fresh_symbol(0, 0), Expr(0)});
  return {};
}

// --- SearchCounts --------------------------------------------------------------------------------

/// For each of `count` numbers from `first` on, how many elements of a vector of I32 are less. The
/// vector is in ascending order.
Status infer_search_counts(InferContext& ctx) {
  const std::vector<Expr> count = ctx.attrs().get_exprs("count");
  if (ctx.rank(0) != 1 || ctx.dtype(0) != DType::I32 || count.size() != 1)
    return ctx.error(Code::Internal, "expected a vector of int32 and one count");
  ctx.set_output(0, DType::I32, {count[0]});
  return {};
}

Status search_counts_element(ElementContext& ctx) {
  const int64_t first = Attributes(ctx.node()).get_int("first");
  const Val value = ctx.value(ctx.index()[0] + first);
  RP_ASSIGN(const Val before, elements_before(ctx, {0, {}, ctx.input_shape(0)[0]}, value, false));
  ctx.set(before);
  return {};
}

double search_counts_reads(const graph::Graph& g, const graph::Node& n) {
  const Shape& counts = g.value(n.inputs[0]).shape;
  return search_reads(g, counts[0]) * graph::count_hint(g, g.value(n.outputs[0]).shape) /
         graph::count_hint(g, counts);
}

constexpr AttrDecl kSearchCountsAttrs[] = {required_attr("first", AttrType::Int),
                                           core_attr("count", CoreForm::Exprs)};
constexpr AttrDecl kUniqueAttrs[] = {optional_attr("axis", AttrType::Int), int_attr("sorted", 1)};
constexpr AttrDecl kCompressAttrs[] = {optional_attr("axis", AttrType::Int)};

}  // namespace

Status give_size(Rewriter& rw, graph::ValueId count, const Expr& rows) {
  RP_ASSIGN(const graph::ValueId size,
            rw.emit_shaped("CountedRows", {count}, {}, DType::Bool, {rows, Expr(0)}));
  SymbolSource& source = rw.graph().symbol_sources[static_cast<size_t>(*rows.as_symbol())];
  source.index = static_cast<int32_t>(size.number());
  source.axis = 0;
  return {};
}

std::span<const OpDef> select_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "NonZero", .infer = infer_nonzero, .decompose = nonzero},
      {.name = "Compress",
       .infer = infer_compress,
       .decompose = compress,
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = kCompressAttrs},
      {.name = "Unique",
       .infer = infer_unique,
       .decompose = unique,
       .max_outputs = 4,
       .attributes = kUniqueAttrs},
      {.name = "CountedRows", .infer = infer_counted_rows},
      {.name = "SearchCounts",
       .infer = infer_search_counts,
       .lowering = Lowering::Element,
       .element = search_counts_element,
       .attributes = kSearchCountsAttrs,
       .sensitivity = kernel::Sensitivity::Decision,
       .layout = LayoutRole::Fixed,
       .reads_per_element = search_counts_reads},
  };
  return kOps;
}

}  // namespace reprise::ops
