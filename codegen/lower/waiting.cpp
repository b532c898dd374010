#include "codegen/lower/waiting.h"

#include <algorithm>

namespace reprise::lower {

using graph::kNone;
using graph::Node;
using graph::ValueId;

Waiting::Waiting(const graph::Graph& g, const std::vector<std::vector<Node*>>& uses) : uses_(uses) {
  for (const auto& n : g.nodes()) {
    position_[n.get()] = static_cast<int>(order_.size());
    order_.push_back(n.get());
  }
  owners_.resize(order_.size());
  reach_.resize(order_.size(), -1);
}

void Waiting::widen(const Group& gr) {
  if (gr.nodes.empty()) return;
  const int last = pos(gr.nodes.back());
  for (size_t p = index(gr.nodes.front()); p < reach_.size() && reach_[p] < last; ++p)
    reach_[p] = last;
}

/// The position after which no way leads back to these nodes: nodes wait for earlier ones only,
/// but those of a group for all that any of them waits for.
int Waiting::no_way_back(const std::vector<Node*>& nodes) const {
  int last = 0;
  for (const Node* n : nodes) last = std::max(last, pos(n));
  while (reach_[static_cast<size_t>(last)] > last) last = reach_[static_cast<size_t>(last)];
  return last;
}

bool Waiting::creates_cycle(const std::vector<Node*>& nodes,
                            const std::vector<Group>& groups) const {
  const int last = no_way_back(nodes);
  std::vector<char> inside(order_.size(), 0), seen(order_.size(), 0);
  for (const Node* n : nodes) inside[index(n)] = 1;
  std::vector<const Node*> stack;
  auto push_users = [&](const Node* n, bool from_inside) {
    for (ValueId v : n->outputs) {
      if (v == kNone) continue;
      for (const Node* u : uses_[static_cast<size_t>(v)]) {
        const size_t p = index(u);
        if (inside[p] != 0) {
          if (!from_inside) return true;
        } else if (seen[p] == 0 && pos(u) <= last) {
          seen[p] = 1;
          stack.push_back(u);
        }
      }
    }
    return false;
  };
  for (const Node* n : nodes) push_users(n, true);
  while (!stack.empty()) {
    const Node* x = stack.back();
    stack.pop_back();
    if (push_users(x, false)) return true;
    const auto& owners = groups_of(x);
    if (owners.size() != 1) continue;
    for (const Node* y : groups[static_cast<size_t>(owners[0])].nodes) {
      const size_t p = index(y);
      if (groups_of(y).size() != 1 || seen[p] != 0 || inside[p] != 0) continue;
      seen[p] = 1;
      stack.push_back(y);
    }
  }
  return false;
}

}  // namespace reprise::lower
