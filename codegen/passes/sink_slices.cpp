// Moves slices that keep one position of an axis in front of the operators whose results they cut:
// the model then computes that position only. With the last row of logits, the head of a language
// model and the layer before it, up to its attention, compute one row. An operator is computed as
// before for the positions that are left, so results are equal to the bit but for the order of sums
// in another schedule.
#include <algorithm>
#include <optional>
#include <vector>

#include "codegen/ops/row/core_nodes.h"
#include "codegen/ops/row/op.h"
#include "codegen/passes/pass.h"

namespace reprise::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

/// The position of an axis that a slice keeps.
struct OnePosition {
  size_t axis = 0;
  Expr at;
};

std::optional<OnePosition> position_kept_by(const Graph& g, const Node& n) {
  const ops::OpDef* def = ops::core_def(n);
  if (def == nullptr || !def->slices) return std::nullopt;
  const Shape &from = g.value(n.inputs[0]).shape, &to = g.value(n.outputs[0]).shape;
  const std::vector<Expr> starts = ops::Attributes(n).get_exprs("starts");
  std::optional<OnePosition> cut;
  for (size_t d = 0; d < to.size(); ++d) {
    if (from[d] == to[d] && starts[d].is_const(0)) continue;
    if (cut || !to[d].is_const(1)) return std::nullopt;
    cut = OnePosition{d, starts[d]};
  }
  return cut;
}

/// The one that all users of the value keep.
std::optional<OnePosition> position_wanted(const Graph& g, ValueId v) {
  if (g.is_output(v) || g.users(v).empty()) return std::nullopt;
  std::optional<OnePosition> cut;
  for (const Node* user : g.users(v)) {
    const std::optional<OnePosition> own = position_kept_by(g, *user);
    if (!own || (cut && (own->axis != cut->axis || own->at != cut->at))) return std::nullopt;
    cut = own;
  }
  return cut;
}

/// Whether the value follows from constants.
bool follows_from_constants(const Graph& g, ValueId v, int depth = 8) {
  const graph::Value& value = g.value(v);
  if (value.constant || value.joined) return true;
  if (value.producer == nullptr || value.producer->inputs.empty() || depth == 0) return false;
  return std::ranges::all_of(value.producer->inputs, [&](ValueId in) {
    return in == graph::kNone || follows_from_constants(g, in, depth - 1);
  });
}

/// For each input of a node: the axis in which it is to be cut. Nothing: it stays as it is.
using InputCuts = std::vector<std::optional<size_t>>;

/// The axis of an operand that broadcasts; nothing if it has the same elements for all positions.
std::optional<size_t> aligned_axis(const Graph& g, ValueId v, size_t axis, size_t rank) {
  const Shape& s = g.value(v).shape;
  const size_t missing = rank - s.size();
  if (axis < missing || s[axis - missing].is_const(1)) return std::nullopt;
  return axis - missing;
}

std::optional<InputCuts> cuts_of_elementwise(const Graph& g, const Node& n, size_t axis) {
  const Shape& out = g.value(n.outputs[0]).shape;
  InputCuts cuts;
  for (const ValueId in : n.inputs) {
    if (in == graph::kNone || g.value(in).shape.size() > out.size()) return std::nullopt;
    cuts.push_back(aligned_axis(g, in, axis, out.size()));
    if (cuts.back() && g.value(in).shape[*cuts.back()] != out[axis]) return std::nullopt;
  }
  return cuts;
}

/// A product by a weight is cut in its rows, and in its batches.
std::optional<InputCuts> cuts_of_product(const Graph& g, const Node& n, size_t axis) {
  const size_t rank = g.value(n.outputs[0]).shape.size();
  if (n.inputs.size() != 2 || axis + 1 >= rank || !follows_from_constants(g, n.inputs[1]))
    return std::nullopt;
  const bool rows = axis + 2 == rank;
  if (!rows && aligned_axis(g, n.inputs[1], axis, rank)) return std::nullopt;
  const auto cut = aligned_axis(g, n.inputs[0], axis, rank);
  if (!cut) return std::nullopt;
  return InputCuts{cut, std::nullopt};
}

/// The axis of the input of a reshape that is the axis of its result.
std::optional<InputCuts> cuts_of_reshape(const Graph& g, const Node& n, size_t axis) {
  const Shape &from = g.value(n.inputs[0]).shape, &to = g.value(n.outputs[0]).shape;
  const Expr inner =
      element_count(Shape(to.begin() + static_cast<std::ptrdiff_t>(axis) + 1, to.end()));
  Expr own = 1;
  for (size_t d = from.size(); d-- > 0; own = own * from[d]) {
    if (own == inner && from[d] == to[axis] && !from[d].is_const(1))
      return InputCuts{std::optional(d)};
  }
  return std::nullopt;
}

/// How the inputs of the node are cut so that its result is. Nothing: it cannot be moved.
std::optional<InputCuts> input_cuts(const Graph& g, const Node& n, size_t axis) {
  const ops::OpDef* def = ops::core_def(n);
  if (def == nullptr || n.outputs.size() != 1 || n.inputs.empty() || ops::is_random(n) ||
      ops::dequantizes(n))
    return std::nullopt;
  if (const auto perm = ops::permutation_of(n))
    return InputCuts{std::optional(static_cast<size_t>((*perm)[axis]))};
  if (ops::is_reshape(g, n)) return cuts_of_reshape(g, n, axis);
  if (def->lowering == ops::Lowering::MatMul) return cuts_of_product(g, n, axis);
  if (def->lowering == ops::Lowering::Reduce && def->combine) {
    const auto axes = ops::Attributes(n).get_ints("axes");
    if (std::ranges::count(axes, static_cast<int64_t>(axis)) != 0) return std::nullopt;
    return InputCuts{std::optional(axis)};
  }
  if (def->concatenates && n.inputs.size() > 1) {
    if (ops::Attributes(n).get_int("axis") == static_cast<int64_t>(axis)) return std::nullopt;
    return InputCuts(n.inputs.size(), axis);
  }
  const bool elementwise = def->lowering == ops::Lowering::Scalar || def->converts;
  return elementwise ? cuts_of_elementwise(g, n, axis) : std::nullopt;
}

ValueId slice_before(Graph& g, Node& before, ValueId v, size_t axis, const Expr& at) {
  Shape shape = g.value(v).shape;
  std::vector<Expr> starts(shape.size(), Expr(0));
  starts[axis] = at;
  shape[axis] = 1;
  graph::NodeSpec slice;
  const Node& like = *g.users(before.outputs[0]).front();
  slice.op = like.op;
  slice.name = like.name;
  slice.origins = like.origins;
  slice.origin_op = like.origin_op;
  slice.attrs.set("starts", std::move(starts));
  slice.attrs.set("steps", std::vector<Expr>(shape.size(), Expr(1)));
  slice.inputs = {v};
  slice.outputs = {g.add_value(g.value(v).name + "/cut", g.value(v).dtype, std::move(shape))};
  const ValueId result = slice.outputs[0];
  g.add_node(std::move(slice), &before);
  return result;
}

/// Replaces the slices of the node's result by the node with cut inputs.
Status sink_into(Graph& g, Node& n, const OnePosition& cut, const InputCuts& cuts) {
  const ValueId old = n.outputs[0];
  Shape shape = g.value(old).shape;
  shape[cut.axis] = 1;
  graph::NodeSpec moved;
  static_cast<graph::NodeInfo&>(moved) = n;
  if (ops::is_reshape(g, n)) moved.attrs = ops::reshape_node(shape).attrs;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const ValueId in = n.inputs[i];
    moved.inputs.push_back(cuts[i] ? slice_before(g, n, in, *cuts[i], cut.at) : in);
  }
  const ValueId result =
      g.add_value(g.value(old).name + "/cut", g.value(old).dtype, std::move(shape));
  moved.outputs = {result};
  RP_TRY(ops::infer(g, *g.add_node(std::move(moved), &n)));
  const std::vector<Node*> slices = g.users(old);
  for (Node* slice : slices) {
    g.replace_uses(slice->outputs[0], result);
    g.erase_node(slice);
  }
  g.erase_node(&n);
  return {};
}

}  // namespace

Status sink_slices(Graph& g) {
  std::vector<Node*> nodes;
  nodes.reserve(g.nodes().size());
  for (const auto& n : g.nodes()) nodes.push_back(n.get());
  // From the last one on, so that a node comes after all that reads it. Slices come after what they
  // read, so an erased one is not visited again.
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    Node& n = **it;
    if (n.outputs.size() != 1 || n.outputs[0] == graph::kNone) continue;
    const std::optional<OnePosition> cut = position_wanted(g, n.outputs[0]);
    if (!cut) continue;
    const std::optional<InputCuts> cuts = input_cuts(g, n, cut->axis);
    if (cuts) RP_TRY(sink_into(g, n, *cut, *cuts));
  }
  return {};
}

}  // namespace reprise::passes
