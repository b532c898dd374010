#include <algorithm>
#include <numeric>

#include "runtime/base/align.h"
#include "runtime/plan/plan.h"

namespace reprise::plan {
namespace {

bool overlap(const ArenaItem& a, const ArenaItem& b) {
  return a.first_level <= b.last_level && b.first_level <= a.last_level;
}

}  // namespace

ArenaLayout layout_arena(const std::vector<ArenaItem>& items, uint64_t alignment) {
  alignment = std::max<uint64_t>(alignment, 1);
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return items[a].bytes > items[b].bytes; });
  ArenaLayout layout;
  layout.offsets.assign(items.size(), 0);
  std::vector<size_t> placed;  // sorted by offset
  for (const size_t i : order) {
    uint64_t offset = 0;
    for (const size_t other : placed) {
      if (!overlap(items[i], items[other])) continue;
      if (offset + items[i].bytes <= layout.offsets[other]) break;
      offset = std::max(offset, align_up(layout.offsets[other] + items[other].bytes, alignment));
    }
    layout.offsets[i] = offset;
    layout.bytes = std::max(layout.bytes, offset + items[i].bytes);
    const auto at =
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [&](uint64_t v, size_t other) { return v < layout.offsets[other]; });
    placed.insert(at, i);
  }
  return layout;
}

}  // namespace reprise::plan
