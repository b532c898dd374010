#include "apps/text/trie.h"

#include <algorithm>

namespace reprise::text {

Trie::Trie(std::vector<std::pair<std::string, int32_t>> entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges;  // of entries, for each node
  nodes_.emplace_back();
  ranges.push_back({0, entries.size(), 0});
  for (size_t n = 0; n < ranges.size(); ++n) {
    Range r = ranges[n];
    // Entries that end here come first.
    for (; r.begin < r.end && entries[r.begin].first.size() == r.depth; ++r.begin)
      nodes_[n].value = entries[r.begin].second;
    nodes_[n].children = static_cast<uint32_t>(nodes_.size());
    while (r.begin < r.end) {
      const auto label = static_cast<unsigned char>(entries[r.begin].first[r.depth]);
      size_t end = r.begin + 1;
      while (end < r.end && static_cast<unsigned char>(entries[end].first[r.depth]) == label) ++end;
      if (n == 0) first_[label] = static_cast<uint32_t>(nodes_.size());
      ++nodes_[n].count;
      nodes_.push_back({0, 0, label, -1});
      ranges.push_back({r.begin, end, r.depth + 1});
      r.begin = end;
    }
  }
}

uint32_t Trie::search(const Node& node, unsigned char label) const {
  const auto begin = nodes_.begin() + node.children;
  const auto end = begin + node.count;
  const auto at = std::lower_bound(
      begin, end, label, [](const Node& n, unsigned char wanted) { return n.label < wanted; });
  return at != end && at->label == label ? static_cast<uint32_t>(at - nodes_.begin()) : kNone;
}

}  // namespace reprise::text
