#include "codegen/ops/op.h"
#include "codegen/passes/pass.h"

namespace reprise::passes {

Status decompose(graph::Graph& g) {
  auto& nodes = g.nodes();
  for (auto it = nodes.begin(); it != nodes.end();) {
    graph::Node* n = it->get();
    const ops::OpDef* def = ops::find(n->domain, n->op);
    if (def == nullptr || def->decompose == nullptr) {
      ++it;
      continue;
    }
    // The rewriter inserts before the node: going on from the first inserted node lets a
    // decomposition use operators that are decomposed themselves.
    const bool first = it == nodes.begin();
    const auto before = first ? it : std::prev(it);
    ops::Rewriter rw(g, *n);
    RP_ASSIGN(const bool replaced, def->decompose(rw));
    if (!replaced) {
      ++it;
      continue;
    }
    g.erase_node(n);
    it = first ? nodes.begin() : std::next(before);
  }
  return {};
}

}  // namespace reprise::passes
