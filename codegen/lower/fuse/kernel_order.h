// The order of a graph's kernels while fusion merges nodes into them: a topological order of a
// directed acyclic graph under contraction of vertices. The algorithm is that of D. Pearce and
// P. Kelly, "A dynamic topological sort algorithm for directed acyclic graphs", ACM JEA 11 (2006),
// with contraction in place of the insertion of edges. A cycle check or a merge visits only the
// vertices that lie between the merged ones in the order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace reprise::lower {

/// A set of small numbers. Clearing it takes constant time.
class Marks {
 public:
  void resize(size_t size) { marked_.resize(size, 0); }
  void clear() { ++now_; }
  bool has(size_t i) const { return marked_[i] == now_; }
  /// False if it was there.
  bool insert(size_t i) { return std::exchange(marked_[i], now_) != now_; }

 private:
  std::vector<uint64_t> marked_;
  uint64_t now_ = 1;
};

class KernelOrder {
 public:
  KernelOrder() = default;
  /// `after[i]` lists the nodes that wait for node i. All of them have larger numbers.
  explicit KernelOrder(std::vector<std::vector<size_t>> after);

  /// Whether merging the nodes would create a cycle: a path leads from one of their vertices
  /// through another vertex back to one of them.
  bool creates_cycle(const std::vector<size_t>& nodes);
  /// The nodes become one vertex. creates_cycle(nodes) must be false.
  void merge(const std::vector<size_t>& nodes);
  /// Removes a node, because every kernel that reads it computes it itself: what the node waits for
  /// then comes before these kernels. Later calls ignore the node. Those with which it was merged
  /// must be removed, too.
  void dissolve(size_t node);

 private:
  struct Window {
    size_t first = 0, last = 0;  // the least and the greatest place of the merged vertices
  };
  Window mark_inside(const std::vector<size_t>& nodes);
  /// Finds the vertices within the window that are not inside, but reachable from there along
  /// `edges`. Returns false if a path leads back inside.
  bool collect(const std::vector<std::vector<size_t>>& edges, const Window& window,
               std::vector<size_t>& found);

  std::vector<std::vector<size_t>> after_, before_;  // by node
  std::vector<size_t> vertex_;              // by node; a vertex is named by one of its nodes
  std::vector<std::vector<size_t>> nodes_;  // by vertex
  std::vector<size_t> place_;               // by vertex
  std::vector<bool> is_dissolved_;          // by node
  // Of the merge in question.
  std::vector<size_t> inside_;
  Marks is_inside_, seen_;
};

}  // namespace reprise::lower
