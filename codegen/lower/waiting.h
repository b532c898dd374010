// Which kernel waits for which, while fusion decides what they are.
#pragma once

#include <unordered_map>
#include <vector>

#include "codegen/lower/group.h"

namespace reprise::lower {

/// The order of a graph's nodes, and the groups that each of them is in.
class Waiting {
 public:
  /// Both must outlive this.
  Waiting(const graph::Graph& g, const std::vector<std::vector<graph::Node*>>& uses);

  const std::vector<graph::Node*>& order() const { return order_; }
  int pos(const graph::Node* n) const { return position_.at(n); }
  std::vector<int>& groups_of(const graph::Node* n) { return owners_[index(n)]; }
  const std::vector<int>& groups_of(const graph::Node* n) const { return owners_[index(n)]; }

  /// The nodes whose results' sizes a node computes with, where only their run tells these.
  const std::vector<const graph::Node*>& sizes_from(const graph::Node* n) const {
    return sizes_from_[index(n)];
  }

  /// Must be called with every group that is new or has more nodes.
  void widen(const Group& gr);
  /// Would these nodes as one kernel, beside the groups there are, wait for themselves?
  bool creates_cycle(const std::vector<graph::Node*>& nodes,
                     const std::vector<Group>& groups) const;

 private:
  size_t index(const graph::Node* n) const { return static_cast<size_t>(pos(n)); }
  void find_sizes(const graph::Graph& g);
  int no_way_back(const std::vector<graph::Node*>& nodes) const;

  const std::vector<std::vector<graph::Node*>>& uses_;
  std::vector<graph::Node*> order_;
  std::unordered_map<const graph::Node*, int> position_;
  std::vector<std::vector<int>> owners_;
  std::vector<std::vector<const graph::Node*>> sizes_from_, sizes_to_;  // and its inverse
  /// By position, the last one of all groups that begin there or before.
  std::vector<int> reach_;
};

}  // namespace reprise::lower
