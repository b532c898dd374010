// Ifs whose branches give values of different ranks, with a condition that only a run knows. A
// value has one rank, so the nodes that read such a result move into both branches. The If ends
// where every result that is read has one rank again.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "codegen/onnx/file/order.h"
#include "codegen/onnx/scope.h"

namespace reprise::onnx {

class Import;

class Forks {
 public:
  explicit Forks(Import& import) : import_(import) {}

  /// Begins a fork. `node` is the If with its branches, which were imported in `scopes`.
  Status start(Scope& scope, const wire::Node& n, graph::NodeSpec node,
               std::array<Scope, 2>& scopes);
  /// Whether a fork of the scope's graph has not ended.
  bool is_open(const Scope& scope) const { return forks_.contains(scope.graph); }
  /// Whether the node reads what the branches of such a fork compute.
  bool reads(Scope& scope, const wire::Node& n);
  /// Adds a node to both branches of the fork.
  Status add(Scope& scope, const wire::Node& n);
  /// Ends the fork if none of the nodes that are still to come needs a rank that is unknown.
  Status end_after(Scope& scope, const NodeList& nodes, std::span<const int> rest);
  /// Ends the fork of the scope's graph, if there is one. Its results that have these names become
  /// results of the If.
  Status end(Scope& scope, const std::unordered_set<std::string>& names);
  /// Forgets the fork of a graph that is given up.
  void drop(const Graph& g);

  /// The value of a branch that a value outside of it is there, if it is known. Nothing for a graph
  /// that is no branch of a fork.
  std::optional<ValueId> inner_value(const Graph* branch, ValueId outer) const;
  void set_inner_value(const Graph* branch, ValueId outer, ValueId inner);

 private:
  /// Nodes that read the results of such an If become part of both branches, until no node needs a
  /// value whose rank only a run knows.
  struct Fork {
    graph::NodeSpec node;  // the If, with its condition only
    std::string text, advice;
    struct Branch {
      std::shared_ptr<Graph> body;
      Status invalid;  // why it cannot run; its body is not imported any further then
      std::vector<Scope::Capture> captures;
      std::map<ValueId, ValueId> inner;  // values of the graph, in the body
    };
    std::array<Branch, 2> branches;
    std::set<ValueId> results;  // values of the graph that the branches compute
    bool changed = true;        // since it was last checked whether the fork may end
  };

  Fork* of(const Graph& g);
  /// The node's results in one branch. None if the branch is invalid, perhaps from this node on.
  Result<std::vector<ValueId>> add_to_branch(Fork& fork, size_t b, Scope& scope,
                                             const wire::Node& n);
  Status end(Graph& g, const std::vector<ValueId>& exports);
  /// Makes these values of `g` the results of a branch.
  Status end_branch(Graph& g, Fork::Branch& branch, const std::vector<ValueId>& exports);
  /// The same in a branch, whose results need not depend on the fork.
  Status end_within(Graph& g, const std::vector<ValueId>& results);
  /// Nothing if the rank depends on the branch that a run takes.
  std::optional<size_t> rank_of(const Graph& g, ValueId v);

  Import& import_;
  std::map<const Graph*, Fork> forks_;  // those that have not ended, by graph
  /// What the branches of such forks know of their graphs, by body.
  std::map<const Graph*, Fork::Branch*> branches_;
};

/// The names of a graph's outputs.
std::unordered_set<std::string> output_names(const wire::Graph& g);

}  // namespace reprise::onnx
