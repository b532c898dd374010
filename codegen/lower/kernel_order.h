// A topological order of a graph whose vertices are merged, one after the other, without making it
// cyclic: D. Pearce and P. Kelly, "A dynamic topological sort algorithm for directed acyclic
// graphs", ACM JEA 11 (2006), with contraction in place of insertion. A question or a merge costs
// as much as there is between the vertices in the order, not as the graph is large.
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
  /// `after[i]`: nodes that wait for node i; all have larger numbers.
  explicit KernelOrder(std::vector<std::vector<size_t>> after);

  /// Whether a way leads from one of the nodes through others back to one of them, where merged
  /// nodes wait for all that any of them waits for. The nodes stand for all that they were merged
  /// with.
  bool creates_cycle(const std::vector<size_t>& nodes);
  /// The nodes become one vertex. creates_cycle(nodes) must be false.
  void merge(const std::vector<size_t>& nodes);

 private:
  struct Window {
    size_t first = 0, last = 0;  // places of the vertices that are merged
  };
  Window mark_inside(const std::vector<size_t>& nodes);
  /// Vertices outside that are reached from the inside along `edges`, within the window; false
  /// where a way leads back inside.
  bool collect(const std::vector<std::vector<size_t>>& edges, const Window& window,
               std::vector<size_t>& found);

  std::vector<std::vector<size_t>> after_, before_;  // of nodes
  std::vector<size_t> vertex_;                       // of each node: the number of one of its nodes
  std::vector<std::vector<size_t>> nodes_;           // of each vertex
  std::vector<size_t> place_;                        // of each vertex
  std::vector<size_t> inside_;                       // vertices
  Marks is_inside_, seen_;
};

}  // namespace reprise::lower
