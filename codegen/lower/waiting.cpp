#include "codegen/lower/waiting.h"

#include <algorithm>
#include <variant>

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
  sizes_from_.resize(order_.size());
  sizes_to_.resize(order_.size());
  find_sizes(g);
}

void Waiting::find_sizes(const graph::Graph& g) {
  std::unordered_map<SymbolId, const Node*> teller;
  for (const Node* n : order_) {
    std::vector<SymbolId> used;
    const auto add = [&](const std::vector<Expr>& list) {
      for (const Expr& e : list) e.collect_symbols(used);
    };
    for (ValueId v : n->outputs) {
      if (v == kNone) continue;
      for (const Expr& dim : g.value(v).shape) {
        const auto id = dim.as_symbol();
        const bool told = id && g.symbol_sources[static_cast<size_t>(*id)].told_by_call();
        if (told) teller.try_emplace(*id, n);
      }
      add(g.value(v).shape);
    }
    for (const auto& [name, attr] : n->attrs) {
      if (const auto* list = std::get_if<std::vector<Expr>>(&attr)) add(*list);
    }
    std::vector<const Node*>& from = sizes_from_[index(n)];
    for (size_t i = 0; i < used.size(); ++i) {
      const plan::SymbolSource& source = g.symbol_sources[static_cast<size_t>(used[i])];
      if (source.kind == plan::SymbolSource::Kind::Derived) source.value.collect_symbols(used);
      const auto by = teller.find(used[i]);
      if (by == teller.end() || by->second == n) continue;
      if (std::find(from.begin(), from.end(), by->second) != from.end()) continue;
      from.push_back(by->second);
      sizes_to_[index(by->second)].push_back(n);
    }
  }
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
  auto push = [&](const Node* u, bool from_inside) {
    const size_t p = index(u);
    if (inside[p] != 0) return !from_inside;
    if (seen[p] == 0 && pos(u) <= last) {
      seen[p] = 1;
      stack.push_back(u);
    }
    return false;
  };
  auto push_users = [&](const Node* n, bool from_inside) {
    for (ValueId v : n->outputs) {
      if (v == kNone) continue;
      for (const Node* u : uses_[static_cast<size_t>(v)]) {
        if (push(u, from_inside)) return true;
      }
    }
    const auto& users = sizes_to_[index(n)];
    return std::any_of(users.begin(), users.end(),
                       [&](const Node* u) { return push(u, from_inside); });
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
