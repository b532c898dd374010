// The groups of a graph while fusion makes them, and which kernel would wait for which.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/lower/fuse/index_tests.h"
#include "codegen/lower/fuse/kernel_order.h"
#include "codegen/lower/group/cost.h"
#include "codegen/lower/group/fusion_decision.h"

namespace reprise::lower {

bool contains(const Group& group, const graph::Node* n);

class Partition {
 public:
  /// The graph, which must keep its nodes, the tests and the facts must outlive this.
  Partition(const graph::Graph& g, IndexTests& tests, FusionLimit limit,
            const shaders::TargetFacts* device);

  const graph::Graph& graph() const { return g_; }
  const std::vector<graph::Node*>& users(graph::ValueId v) const { return g_.users(v); }
  /// Topological.
  const std::vector<graph::Node*>& order() const { return order_; }
  int pos(const graph::Node* n) const { return position_.at(n); }

  const std::vector<Group>& groups() const { return groups_; }
  const Group& group(int id) const { return groups_[static_cast<size_t>(id)]; }
  const std::vector<int>& groups_of(const graph::Node* n) const { return owners_[index(n)]; }
  bool is_free(const graph::Node& n) const { return groups_of(&n).empty(); }

  int add(Group group);
  /// Adds the free node n to each of these groups.
  void add_node(const std::set<int>& ids, graph::Node* n);
  void add_output(int id, graph::ValueId v);
  /// Group `into` becomes both; `from` keeps neither nodes nor outputs.
  void merge(int into, int from);
  /// Each of the groups `into` computes the nodes of `from` itself, which keeps none.
  void distribute(int from, const std::set<int>& into);
  std::vector<Group> take_groups() { return std::move(groups_); }

  // --- Groups that are not part of it yet ---
  /// Inserts n where it belongs, unless it is there.
  void insert(Group& group, graph::Node* n) const;
  /// Values of the group that something outside it needs.
  std::vector<graph::ValueId> outputs_of(const Group& group) const;
  /// Why the group would read and write more tensors than devices can bind to a kernel; empty if it
  /// would not.
  std::string too_many_buffers(const Group& group) const;
  Status test_indices(const Group& group) const { return tests_.test(g_, group); }
  /// Whether merging these nodes would create a cycle between kernels.
  bool creates_cycle(const std::vector<graph::Node*>& nodes);

  /// The producers of the data-dependent dims that the node's shapes or attributes use.
  const std::vector<const graph::Node*>& sizes_from(const graph::Node* n) const {
    return sizes_from_[index(n)];
  }

  // --- Decisions ---
  /// Records that n joins the group. Returns why the limit forbids the join, or nothing. Call it
  /// after all other checks.
  std::string decide(FusionDecision::Kind kind, const graph::Node& n, const Group& group);
  std::vector<FusionDecision> take_decisions() { return std::move(decisions_); }

  // --- Why two nodes are in different kernels ---
  void explain(const graph::Node* from, const graph::Node* to, const std::string& reason);
  /// For every value of the group that n reads.
  void explain(const Group& group, const graph::Node* n, const std::string& reason);
  /// Empty if there is none.
  std::string explanation(const graph::Node* from, const graph::Node* to) const;

 private:
  /// Whether the graph or another group than `id` reads v, which `id` computes.
  bool is_read_elsewhere(int id, graph::ValueId v) const;
  size_t index(const graph::Node* n) const { return static_cast<size_t>(pos(n)); }
  void find_sizes();
  KernelOrder make_order() const;
  std::vector<size_t> indices(const std::vector<graph::Node*>& nodes) const;
  /// Merges the nodes that only this group computes in the order of kernels.
  void merge_order(const Group& group);

  const graph::Graph& g_;
  IndexTests& tests_;
  const FusionLimit limit_;
  const shaders::TargetFacts* device_;
  std::vector<FusionDecision> decisions_;
  std::vector<graph::Node*> order_;
  std::unordered_map<const graph::Node*, int> position_;
  std::vector<Group> groups_;
  std::vector<std::vector<int>> owners_;
  std::vector<std::vector<const graph::Node*>> sizes_from_, sizes_to_;  // and its inverse
  KernelOrder kernels_;  // of nodes by position; those that one group computes are one vertex
  std::map<std::pair<const graph::Node*, const graph::Node*>, std::string> reasons_;
};

}  // namespace reprise::lower
