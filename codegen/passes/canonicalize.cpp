#include <vector>

#include "codegen/ops/row/core_nodes.h"
#include "codegen/ops/row/op.h"
#include "codegen/passes/pass.h"

namespace reprise::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;

bool is_no_op(const Graph& g, const Node& n) {
  const Value& in = g.value(n.inputs[0]);
  const Value& out = g.value(n.outputs[0]);
  const bool same_shape = in.has_shape && out.has_shape && in.shape == out.shape;
  return in.dtype == out.dtype && same_shape && ops::is_identity(n);
}

/// Merges a view into the view that it reads. Returns whether the node changed.
bool merge_views(Graph& g, Node& n) {
  const Node* p = g.value(n.inputs[0]).producer;
  const ops::OpDef* def = ops::core_def(n);
  if (p == nullptr || def == nullptr || def->merge == nullptr || ops::core_def(*p) != def)
    return false;
  def->merge(n, *p);
  // Each Expand may increase the rank. Broadcasting aligns at the end in either case.
  g.set_input(n, 0, p->inputs[0]);
  for (const std::string& o : p->origins) n.origins.push_back(o);
  return true;
}

}  // namespace

Status canonicalize(Graph& g) {
  auto& nodes = g.nodes();
  for (auto it = nodes.begin(); it != nodes.end();) {
    Node* n = it->get();
    ++it;
    if (!n->domain.empty() || n->inputs.empty() || n->inputs[0] == graph::kNone ||
        n->outputs.size() != 1) {
      continue;
    }
    const auto merge = [&] {
      while (merge_views(g, *n)) {
      }
    };
    merge();
    if (ops::is_reshape(g, *n)) ops::become_reshape(g, *n);
    merge();
    if (is_no_op(g, *n) && !g.is_output(n->outputs[0])) {
      g.replace_uses(n->outputs[0], n->inputs[0]);
      g.erase_node(n);
    }
  }
  return dce(g);
}

}  // namespace reprise::passes
