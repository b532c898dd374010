#include <vector>

#include "codegen/passes/pass.h"

namespace reprise::passes {

Status dce(graph::Graph& g) {
  std::vector<uint32_t> uses(g.values().size(), 0);
  for (const auto& n : g.nodes()) {
    for (graph::ValueId v : n->inputs) {
      if (v != graph::kNone) ++uses[static_cast<size_t>(v)];
    }
    // Captures of a subgraph are listed among its node's inputs.
  }
  for (graph::ValueId v : g.outputs) ++uses[static_cast<size_t>(v)];
  auto& nodes = g.nodes();
  for (auto it = nodes.end(); it != nodes.begin();) {
    --it;
    graph::Node* n = it->get();
    bool used = false;
    for (graph::ValueId v : n->outputs)
      used |= v != graph::kNone && uses[static_cast<size_t>(v)] > 0;
    if (used) continue;
    for (graph::ValueId v : n->inputs) {
      if (v != graph::kNone) --uses[static_cast<size_t>(v)];
    }
    auto next = std::next(it);
    g.erase_node(n);
    it = next;
  }
  return {};
}

}  // namespace reprise::passes
