#include "codegen/onnx/forks.h"

#include <algorithm>
#include <utility>

#include "codegen/onnx/bodies.h"
#include "codegen/onnx/conditionals.h"
#include "codegen/onnx/import.h"

namespace reprise::onnx {

std::unordered_set<std::string> output_names(const wire::Graph& g) {
  std::unordered_set<std::string> names;
  for (const wire::ValueInfo& o : g.output()) names.insert(o.name());
  return names;
}

Forks::Fork* Forks::of(const Graph& g) {
  const auto at = forks_.find(&g);
  return at == forks_.end() ? nullptr : &at->second;
}

std::optional<size_t> Forks::rank_of(const Graph& g, ValueId v) {
  if (is_typed(g.value(v))) return g.value(v).shape.size();
  const Fork* fork = of(g);
  if (fork == nullptr || !fork->results.contains(v)) return std::nullopt;
  std::optional<size_t> rank;
  for (const Fork::Branch& b : fork->branches) {
    if (!b.invalid.ok()) continue;
    const auto own = rank_of(*b.body, b.inner.at(v));
    if (!own || (rank && *rank != *own)) return std::nullopt;
    rank = own;
  }
  return rank;
}

Status Forks::start(Scope& scope, const wire::Node& n, graph::NodeSpec node,
                    std::array<Scope, 2>& scopes) {
  Fork fork;
  fork.text = node_text(n);
  fork.advice = advice_for(*scope.graph, node.inputs[0]);
  for (size_t b = 0; b < 2; ++b) {
    Fork::Branch& branch = fork.branches[b];
    branch.body = node.subgraphs[b].second;
    branch.captures = std::move(scopes[b].captures);
    for (const Scope::Capture& c : branch.captures) branch.inner.emplace(c.outer, c.inner);
  }
  node.subgraphs.clear();
  fork.node = std::move(node);
  for (int i = 0; i < n.output_size(); ++i) {
    if (n.output(i).empty()) continue;
    const ValueId v = scope.graph->add_unknown(scope.name_in_graph(n.output(i)));
    fork.results.insert(v);
    for (Fork::Branch& b : fork.branches)
      b.inner.emplace(v, b.body->outputs[static_cast<size_t>(i)]);
    scope.names.insert_or_assign(n.output(i), v);
  }
  Fork& kept = forks_.insert_or_assign(scope.graph, std::move(fork)).first->second;
  for (Fork::Branch& b : kept.branches) {
    b.body->set_outputs({});
    b.body->output_names.clear();
    branches_[b.body.get()] = &b;
  }
  return {};
}

bool Forks::reads(Scope& scope, const wire::Node& n) {
  const Fork* fork = of(*scope.graph);
  if (fork == nullptr) return false;
  const auto names = names_read(n);
  return std::ranges::any_of(names, [&](const std::string& name) {
    const std::optional<ValueId> v = import_.names.resolve(scope, name);
    return v && fork->results.contains(*v);
  });
}

Result<std::vector<ValueId>> Forks::add_to_branch(Fork& fork, size_t b, Scope& scope,
                                                  const wire::Node& n) {
  Fork::Branch& branch = fork.branches[b];
  if (!branch.invalid.ok()) return std::vector<ValueId>();
  Scope inner = scope.nested();
  inner.graph = branch.body.get();
  share_symbols(*scope.graph, *branch.body);
  const auto& before = branch.body->nodes();
  const graph::Node* const last = before.empty() ? nullptr : before.back().get();
  import_.nodes.watch_types();
  Status added = import_.nodes.add(inner, n);
  const std::string where =
      "after the " + std::string(b == 0 ? "then" : "else") + "_branch of " + fork.text;
  if (!added.ok() && import_.nodes.is_fault_of_types(added) && fork.branches[1 - b].invalid.ok()) {
    branch.invalid = added.with_context(where);
    import_.functions.forget_failure();
    return std::vector<ValueId>();
  }
  if (!added.ok()) added = import_.refusals.refuse(inner, n, added, last);
  RP_TRY(added.with_context(where));
  branch.captures.insert(branch.captures.end(), inner.captures.begin(), inner.captures.end());
  share_symbols(*branch.body, *scope.graph);
  std::vector<ValueId> results;
  for (const std::string& name : n.output()) {
    const auto at = inner.names.find(name);
    if (!name.empty() && at == inner.names.end())
      return internal_error(node_text(n) + ": output " + shown(name) + " was not added");
    results.push_back(name.empty() ? kNone : at->second);
  }
  return results;
}

Status Forks::add(Scope& scope, const wire::Node& n) {
  Fork& fork = *of(*scope.graph);
  std::array<std::vector<ValueId>, 2> results;
  for (size_t b = 0; b < 2; ++b) {
    RP_ASSIGN(results[b], add_to_branch(fork, b, scope, n));
  }
  fork.changed = true;
  for (int i = 0; i < n.output_size(); ++i) {
    const std::string& name = n.output(i);
    if (name.empty()) continue;
    const ValueId v = scope.graph->add_unknown(scope.name_in_graph(name));
    fork.results.insert(v);
    for (size_t b = 0; b < 2; ++b)
      if (fork.branches[b].invalid.ok())
        fork.branches[b].inner.emplace(v, results[b][static_cast<size_t>(i)]);
    scope.names.insert_or_assign(name, v);
  }
  return {};
}

Status Forks::end_after(Scope& scope, const NodeList& nodes, std::span<const int> rest) {
  Fork* fork = of(*scope.graph);
  if (fork == nullptr || scope.source == nullptr || !fork->changed) return {};
  fork->changed = false;
  const auto lacks_rank = [&](const std::string& name) {
    const auto at = scope.names.find(name);
    const bool forked = at != scope.names.end() && fork->results.contains(at->second);
    return forked && !rank_of(*scope.graph, at->second);
  };
  std::unordered_set<std::string> later = output_names(*scope.source);
  if (std::ranges::any_of(later, lacks_rank)) return {};
  for (const int i : rest) {
    std::unordered_set<std::string> names = names_read(nodes[i]);
    if (std::ranges::any_of(names, lacks_rank)) return {};
    later.merge(names);
  }
  return end(scope, later);
}

Status Forks::end(Scope& scope, const std::unordered_set<std::string>& names) {
  const Fork* fork = of(*scope.graph);
  if (fork == nullptr) return {};
  std::set<ValueId> exports;
  for (const std::string& name : names) {
    const auto at = scope.names.find(name);
    if (at != scope.names.end() && fork->results.contains(at->second)) exports.insert(at->second);
  }
  return end(*scope.graph, std::vector<ValueId>(exports.begin(), exports.end()));
}

void Forks::drop(const Graph& g) {
  const auto at = forks_.find(&g);
  if (at == forks_.end()) return;
  const Fork fork = std::move(at->second);
  forks_.erase(at);
  for (const Fork::Branch& b : fork.branches) {
    branches_.erase(b.body.get());
    drop(*b.body);
  }
}

Status Forks::end_within(Graph& g, const std::vector<ValueId>& results) {
  const Fork* fork = of(g);
  if (fork == nullptr) return {};
  std::set<ValueId> exports;  // others do not depend on the fork
  for (const ValueId v : results) {
    if (fork->results.contains(v)) exports.insert(v);
  }
  return end(g, std::vector<ValueId>(exports.begin(), exports.end()));
}

Status Forks::end_branch(Graph& g, Fork::Branch& branch, const std::vector<ValueId>& exports) {
  share_symbols(g, *branch.body);
  std::vector<ValueId> results;
  results.reserve(exports.size());
  for (const ValueId v : exports) results.push_back(branch.inner.at(v));
  RP_TRY(end_within(*branch.body, results));
  branch.body->set_outputs(results);
  branch.body->output_names.clear();
  for (const ValueId v : exports) branch.body->output_names.push_back(g.value(v).name);
  share_symbols(*branch.body, g);
  return {};
}

Status Forks::end(Graph& g, const std::vector<ValueId>& exports) {
  const auto at = forks_.find(&g);
  if (at == forks_.end()) return {};
  Fork fork = std::move(at->second);
  forks_.erase(at);
  for (Fork::Branch& branch : fork.branches) {
    branches_.erase(branch.body.get());
    if (branch.invalid.ok()) RP_TRY(end_branch(g, branch, exports));
  }
  std::array<Scope, 2> scopes;
  for (size_t b = 0; b < 2; ++b) {
    Fork::Branch& branch = fork.branches[b];
    if (!branch.invalid.ok()) {
      drop(*branch.body);
      const Graph& other = *fork.branches[1 - b].body;
      const std::vector<ValueId> results(other.outputs.begin(), other.outputs.end());
      RP_ASSIGN(branch.body, failing_body(g, other, results, branch.invalid, import_.notes));
      share_symbols(*branch.body, g);
      branch.captures.clear();
    }
    scopes[b].captures = std::move(branch.captures);
    fork.node.subgraphs.emplace_back(b == 0 ? "then_branch" : "else_branch", branch.body);
  }
  for (Fork::Branch& branch : fork.branches) {
    share_symbols(g, *branch.body);
    branch.body->inherited_symbols = branch.body->symbols.size();
  }
  if (exports.empty()) return {};  // nothing reads its results
  fork.node.outputs = exports;
  join_captures(fork.node, scopes);
  const graph::Node* added = g.add_node(std::move(fork.node));
  for (size_t i = 0; i < exports.size(); ++i) {
    const auto result = [&](size_t b) {
      return &fork.branches[b].body->value(added->subgraphs[b].second->outputs[i]);
    };
    RP_TRY(merge_types(g, exports[i], {result(0), result(1)}, shown(g.value(exports[i]).name),
                       fork.advice)
               .with_context(fork.text));
  }
  return {};
}

std::optional<ValueId> Forks::inner_value(const Graph* branch, ValueId outer) const {
  const auto at = branches_.find(branch);
  if (at == branches_.end()) return std::nullopt;
  const auto known = at->second->inner.find(outer);
  return known == at->second->inner.end() ? std::nullopt : std::optional(known->second);
}

void Forks::set_inner_value(const Graph* branch, ValueId outer, ValueId inner) {
  if (const auto at = branches_.find(branch); at != branches_.end())
    at->second->inner.emplace(outer, inner);
}

}  // namespace reprise::onnx
