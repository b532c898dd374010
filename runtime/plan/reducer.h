// Transitive reduction of a partial order, one node at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::plan {

/// Removes predecessors for which another predecessor already waits. Nodes must be numbered in a
/// valid sequential order and reduced in that order. Takes one bit per pair of nodes.
class Reducer {
 public:
  explicit Reducer(size_t nodes) : words_((nodes + 63) / 64), bits_(words_ * nodes) {}

  /// Returns the reduced predecessors. Calling it again for a node replaces its predecessors.
  std::vector<uint32_t> reduce(uint32_t node, std::vector<uint32_t> predecessors) {
    std::sort(predecessors.begin(), predecessors.end());
    predecessors.erase(std::unique(predecessors.begin(), predecessors.end()), predecessors.end());
    std::vector<uint32_t> kept;
    uint64_t* row = bits_.data() + words_ * node;
    std::fill(row, row + words_, 0);
    // Later ones first: an earlier node can be an ancestor of a later one, never the reverse.
    for (auto it = predecessors.rbegin(); it != predecessors.rend(); ++it) {
      if (precedes(*it, node)) continue;
      kept.push_back(*it);
      const uint64_t* other = bits_.data() + words_ * *it;
      for (size_t w = 0; w < words_; ++w) row[w] |= other[w];
      row[*it / 64] |= uint64_t{1} << (*it % 64);
    }
    std::reverse(kept.begin(), kept.end());
    return kept;
  }

  /// Whether `node`, which must have been reduced, waits for `earlier`.
  bool precedes(uint32_t earlier, uint32_t node) const {
    return (bits_[words_ * node + earlier / 64] >> (earlier % 64) & 1) != 0;
  }

 private:
  size_t words_;
  std::vector<uint64_t> bits_;
};

}  // namespace reprise::plan
