#include "codegen/lower/fuse/partition.h"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <variant>

namespace reprise::lower {

using graph::kNone;
using graph::Node;
using graph::ValueId;

bool contains(const Group& group, const Node* n) {
  return std::find(group.nodes.begin(), group.nodes.end(), n) != group.nodes.end();
}

Partition::Partition(const graph::Graph& g, IndexTests& tests, FusionLimit limit,
                     const shaders::TargetFacts* device)
    : g_(g), tests_(tests), limit_(std::move(limit)), device_(device) {
  for (const auto& n : g.nodes()) {
    position_[n.get()] = static_cast<int>(order_.size());
    order_.push_back(n.get());
  }
  owners_.resize(order_.size());
  sizes_from_.resize(order_.size());
  sizes_to_.resize(order_.size());
  find_sizes();
  kernels_ = make_order();
}

KernelOrder Partition::make_order() const {
  std::vector<std::vector<size_t>> after(order_.size());
  for (size_t i = 0; i < order_.size(); ++i) {
    for (const ValueId v : order_[i]->outputs) {
      if (v == kNone) continue;
      for (const Node* u : users(v)) after[i].push_back(index(u));
    }
    for (const Node* u : sizes_to_[i]) after[i].push_back(index(u));
  }
  return KernelOrder(std::move(after));
}

std::vector<size_t> Partition::indices(const std::vector<Node*>& nodes) const {
  std::vector<size_t> out;
  out.reserve(nodes.size());
  for (const Node* n : nodes) out.push_back(index(n));
  return out;
}

void Partition::merge_order(const Group& group) {
  std::vector<size_t> own;
  for (const Node* n : group.nodes)
    if (groups_of(n).size() == 1) own.push_back(index(n));
  kernels_.merge(own);
}

void Partition::find_sizes() {
  std::unordered_map<SymbolId, const Node*> producer;
  for (const Node* n : order_) {
    std::vector<SymbolId> used;
    const auto add = [&](const std::vector<Expr>& list) {
      for (const Expr& e : list) e.collect_symbols(used);
    };
    for (ValueId v : n->outputs) {
      if (v == kNone) continue;
      for (const Expr& dim : g_.value(v).shape) {
        const auto id = dim.as_symbol();
        const bool from_call = id && g_.symbol_sources[static_cast<size_t>(*id)].known_from_call();
        if (from_call) producer.try_emplace(*id, n);
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
      const auto by = producer.find(used[i]);
      if (by == producer.end() || by->second == n) continue;
      if (std::find(from.begin(), from.end(), by->second) != from.end()) continue;
      from.push_back(by->second);
      sizes_to_[index(by->second)].push_back(n);
    }
  }
}

int Partition::add(Group group) {
  const int id = static_cast<int>(groups_.size());
  for (const Node* n : group.nodes) owners_[index(n)].push_back(id);
  merge_order(group);
  groups_.push_back(std::move(group));
  return id;
}

void Partition::add_node(const std::set<int>& ids, Node* n) {
  owners_[index(n)].assign(ids.begin(), ids.end());
  for (const int id : ids) insert(groups_[static_cast<size_t>(id)], n);
  if (ids.size() == 1) {
    merge_order(group(*ids.begin()));
  } else {
    kernels_.dissolve(index(n));
  }
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
  std::erase_if(a.outputs, [&](ValueId v) { return !is_read_elsewhere(into, v); });
  b.nodes.clear();
  b.outputs.clear();
  merge_order(a);
}

void Partition::distribute(int from, const std::set<int>& into) {
  Group& rows = groups_[static_cast<size_t>(from)];
  for (Node* n : rows.nodes) {
    std::vector<int>& owners = owners_[index(n)];
    std::set<int> all(owners.begin(), owners.end());
    all.erase(from);
    all.insert(into.begin(), into.end());
    owners.assign(all.begin(), all.end());
    for (const int id : into) insert(groups_[static_cast<size_t>(id)], n);
    kernels_.dissolve(index(n));
  }
  rows.nodes.clear();
  rows.outputs.clear();
}

// A user may be a part of several groups, which read v unless they compute it themselves.
bool Partition::is_read_elsewhere(int id, ValueId v) const {
  const auto in_another = [&](const Node* u) {
    const std::vector<int>& ids = groups_of(u);
    return ids.empty() || std::ranges::any_of(ids, [&](int other) {
             return other != id && !contains(group(other), g_.value(v).producer);
           });
  };
  return g_.is_output(v) || std::ranges::any_of(users(v), in_another);
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

std::string Partition::too_many_buffers(const Group& group) const {
  if (device_ == nullptr) return {};
  std::unordered_set<ValueId> computed, read;
  for (const Node* n : group.nodes) computed.insert(n->outputs.begin(), n->outputs.end());
  for (const Node* n : group.nodes) {
    for (const ValueId v : n->inputs)
      if (is_bound(g_, v) && !computed.contains(v)) read.insert(v);
  }
  if (read.size() + computed.size() <= shaders::TargetFacts::kBuffersThatFit) return {};
  if (device_->fits_buffers(read.size() + outputs_of(group).size())) return {};
  return "the kernel would have more tensors than devices without buffer addresses can bind";
}

std::string Partition::decide(FusionDecision::Kind kind, const Node& n, const Group& group) {
  const auto name = [&](const Node& node) { return g_.value(node.outputs[0]).name; };
  const Node* seed = group.anchor != nullptr ? group.anchor : group.nodes.front();
  FusionDecision decision{kind, name(n), name(*seed)};
  if (decisions_.size() >= limit_.first) return "the limit of joins is reached";
  const auto& only = limit_.only;
  if (only && !only->contains(decision))
    return "the join is not among those that the options allow";
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

bool Partition::creates_cycle(const std::vector<Node*>& nodes) {
  return kernels_.creates_cycle(indices(nodes));
}

}  // namespace reprise::lower
