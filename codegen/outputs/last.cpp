#include <algorithm>
#include <charconv>

#include "codegen/ops/row/core_nodes.h"
#include "codegen/outputs/output_slices.h"
#include "codegen/outputs/outputs.h"

namespace reprise {

using graph::Graph;
using graph::ValueId;

namespace {

std::string shape_of(const Graph& g, ValueId v) {
  return shape_str(g.value(v).shape, g.symbols);
}

/// The number of the axis in the text, or of the one whose size has that name.
Result<size_t> axis_of(const Graph& g, ValueId v, const LastOption& option) {
  const Shape& s = g.value(v).shape;
  const std::string where = "--last " + option.output + ": the output is " + shape_of(g, v);
  if (option.axis.empty()) {
    if (s.size() >= 2) return s.size() - 2;
    return Status(Code::Usage, where + ", which has no axis before the last one");
  }
  int64_t number = 0;
  const char* const end = option.axis.data() + option.axis.size();
  const auto [rest, error] = std::from_chars(option.axis.data(), end, number);
  if (error == std::errc() && rest == end) {
    const auto rank = static_cast<int64_t>(s.size());
    if (number >= -rank && number < rank)
      return static_cast<size_t>(number < 0 ? number + rank : number);
  }
  for (size_t d = 0; d < s.size(); ++d)
    if (s[d].str(g.symbols) == option.axis) return d;
  return Status(Code::Usage, where + ", which has no axis '" + option.axis + "'");
}

}  // namespace

Result<size_t> find_output(const Graph& g, const std::string& name, const std::string& option) {
  std::string names;
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    if (g.output_name(i) == name) return i;
    names += (names.empty() ? "" : ", ") + g.output_name(i);
  }
  return Status(Code::Usage,
                option + " " + name + ": the model has no such output; it has " + names);
}

void name_outputs(Graph& g) {
  std::vector<std::string> names;
  names.reserve(g.outputs.size());
  for (size_t i = 0; i < g.outputs.size(); ++i) names.push_back(g.output_name(i));
  g.output_names = std::move(names);
}

Result<ValueId> last_position(Graph& g, ValueId v, size_t axis, const std::string& name) {
  const Expr size = g.value(v).shape[axis];
  if (size.is_const(1)) return v;
  if (size.is_const(0))
    return Status(Code::Usage,
                  "'" + name + "' is " + shape_of(g, v) + ", which has no last position");
  if (!size.is_const()) {
    graph::DimGuard guard;
    guard.kind = DimGuard::Kind::AtLeast;
    guard.a = size;
    guard.b = 1;
    guard.node = "the last position of '" + name + "'";
    guard.a_is = "dimension " + std::to_string(axis) + " of '" + name + "'";
    guard.b_is = "one position";
    g.guards.push_back(std::move(guard));
    g.equal_dims = nullptr;
  }
  Shape shape = g.value(v).shape;
  std::vector<Expr> starts(shape.size(), Expr(0));
  starts[axis] = size - 1;
  shape[axis] = 1;
  graph::NodeSpec n = ops::slice_node(std::move(starts));
  n.name = name + ".last";
  n.inputs = {v};
  const ValueId out = g.add_value(name + ".last", g.value(v).dtype, std::move(shape));
  n.outputs = {out};
  g.add_node(std::move(n));
  return out;
}

Status add_last(Graph& g, const std::vector<LastOption>& last) {
  if (!last.empty()) name_outputs(g);
  for (const LastOption& option : last) {
    RP_ASSIGN(const size_t i, find_output(g, option.output, "--last"));
    RP_ASSIGN(const size_t axis, axis_of(g, g.outputs[i], option));
    std::vector<ValueId> outputs = g.outputs.list();
    RP_ASSIGN(outputs[i], last_position(g, outputs[i], axis, option.output));
    g.set_outputs(std::move(outputs));
  }
  return {};
}

}  // namespace reprise
