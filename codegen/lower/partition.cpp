#include "codegen/lower/partition.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace reprise::lower {

using graph::kNone;
using graph::Node;
using graph::ValueId;

bool contains(const Group& group, const Node* n) {
  return std::find(group.nodes.begin(), group.nodes.end(), n) != group.nodes.end();
}

Partition::Partition(const graph::Graph& g, FusionLimit limit) : g_(g), limit_(std::move(limit)) {
  for (const auto& n : g.nodes()) {
    position_[n.get()] = static_cast<int>(order_.size());
    order_.push_back(n.get());
  }
  owners_.resize(order_.size());
  reach_.resize(order_.size(), -1);
  sizes_from_.resize(order_.size());
  sizes_to_.resize(order_.size());
  inside_.resize(order_.size());
  seen_.resize(order_.size());
  find_sizes();
}

void Partition::find_sizes() {
  std::unordered_map<SymbolId, const Node*> teller;
  for (const Node* n : order_) {
    std::vector<SymbolId> used;
    const auto add = [&](const std::vector<Expr>& list) {
      for (const Expr& e : list) e.collect_symbols(used);
    };
    for (ValueId v : n->outputs) {
      if (v == kNone) continue;
      for (const Expr& dim : g_.value(v).shape) {
        const auto id = dim.as_symbol();
        const bool told = id && g_.symbol_sources[static_cast<size_t>(*id)].told_by_call();
        if (told) teller.try_emplace(*id, n);
      }
      add(g_.value(v).shape);
    }
    for (const auto& [name, attr] : n->attrs) {
      if (const auto* list = std::get_if<std::vector<Expr>>(&attr)) add(*list);
    }
    std::vector<const Node*>& from = sizes_from_[index(n)];
    for (size_t i = 0; i < used.size(); ++i) {
      const SymbolSource& source = g_.symbol_sources[static_cast<size_t>(used[i])];
      if (source.kind == SymbolSource::Kind::Derived) source.value.collect_symbols(used);
      const auto by = teller.find(used[i]);
      if (by == teller.end() || by->second == n) continue;
      if (std::find(from.begin(), from.end(), by->second) != from.end()) continue;
      from.push_back(by->second);
      sizes_to_[index(by->second)].push_back(n);
    }
  }
}

int Partition::add(Group group) {
  const int id = static_cast<int>(groups_.size());
  for (const Node* n : group.nodes) owners_[index(n)].push_back(id);
  extend_reach(group);
  groups_.push_back(std::move(group));
  return id;
}

void Partition::add_node(int id, Node* n) {
  Group& group = groups_[static_cast<size_t>(id)];
  insert(group, n);
  owners_[index(n)].push_back(id);
  extend_reach(group);
}

void Partition::add_output(int id, ValueId v) {
  groups_[static_cast<size_t>(id)].outputs.push_back(v);
}

void Partition::merge(int into, int from) {
  Group& a = groups_[static_cast<size_t>(into)];
  Group& b = groups_[static_cast<size_t>(from)];
  for (Node* n : b.nodes) {
    std::vector<int>& owners = owners_[index(n)];
    std::replace(owners.begin(), owners.end(), from, into);
    std::sort(owners.begin(), owners.end());
    owners.erase(std::unique(owners.begin(), owners.end()), owners.end());
    insert(a, n);
  }
  a.outputs.insert(a.outputs.end(), b.outputs.begin(), b.outputs.end());
  b.nodes.clear();
  b.outputs.clear();
  extend_reach(a);
}

void Partition::extend_reach(const Group& group) {
  if (group.nodes.empty()) return;
  const int last = pos(group.nodes.back());
  for (size_t p = index(group.nodes.front()); p < reach_.size() && reach_[p] < last; ++p)
    reach_[p] = last;
}

void Partition::insert(Group& group, Node* n) const {
  const auto it = std::lower_bound(group.nodes.begin(), group.nodes.end(), n,
                                   [&](const Node* a, const Node* b) { return pos(a) < pos(b); });
  if (it == group.nodes.end() || *it != n) group.nodes.insert(it, n);
}

std::vector<ValueId> Partition::outputs_of(const Group& group) const {
  std::vector<ValueId> out;
  for (const Node* n : group.nodes) {
    for (const ValueId v : n->outputs) {
      if (v == kNone) continue;
      bool outside = g_.is_output(v);
      for (const Node* u : users(v)) outside |= !contains(group, u);
      if (outside) out.push_back(v);
    }
  }
  return out;
}

std::string Partition::decide(FusionDecision::Kind kind, const Node& n, const Group& group) {
  const auto name = [&](const Node& node) { return g_.value(node.outputs[0]).name; };
  const Node* seed = group.anchor != nullptr ? group.anchor : group.nodes.front();
  FusionDecision decision{kind, name(n), name(*seed)};
  const auto& only = limit_.only;
  const bool allowed = decisions_.size() < limit_.first &&
                       (!only || std::find(only->begin(), only->end(), decision) != only->end());
  if (!allowed) return "fusion was told to make no more joins";
  decisions_.push_back(std::move(decision));
  return {};
}

void Partition::explain(const Node* from, const Node* to, const std::string& reason) {
  reasons_[{from, to}] = reason;
}

void Partition::explain(const Group& group, const Node* n, const std::string& reason) {
  for (const ValueId v : n->inputs) {
    const Node* from = v == kNone ? nullptr : g_.value(v).producer;
    if (from != nullptr && contains(group, from)) explain(from, n, reason);
  }
}

std::string Partition::explanation(const Node* from, const Node* to) const {
  const auto it = reasons_.find({from, to});
  return it == reasons_.end() ? std::string() : it->second;
}

/// The position after which no way leads back to these nodes: nodes wait for earlier ones only,
/// but those of a group for all that any of them waits for.
int Partition::no_way_back(const std::vector<Node*>& nodes) const {
  int last = 0;
  for (const Node* n : nodes) last = std::max(last, pos(n));
  while (reach_[static_cast<size_t>(last)] > last) last = reach_[static_cast<size_t>(last)];
  return last;
}

bool Partition::creates_cycle(const std::vector<Node*>& nodes) {
  const int last = no_way_back(nodes);
  inside_.clear();
  seen_.clear();
  for (const Node* n : nodes) inside_.insert(index(n));
  std::vector<const Node*> stack;
  auto push = [&](const Node* u, bool from_inside) {
    const size_t p = index(u);
    if (inside_.has(p)) return !from_inside;
    if (pos(u) <= last && seen_.insert(p)) stack.push_back(u);
    return false;
  };
  auto push_users = [&](const Node* n, bool from_inside) {
    for (ValueId v : n->outputs) {
      if (v == kNone) continue;
      for (const Node* u : users(v)) {
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
    for (const Node* y : group(owners[0]).nodes) {
      const size_t p = index(y);
      if (groups_of(y).size() == 1 && !inside_.has(p) && seen_.insert(p)) stack.push_back(y);
    }
  }
  return false;
}

}  // namespace reprise::lower
