#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "runtime/plan/plan.h"

namespace reprise::plan {
namespace {

TEST(Arena, RandomItemsNeverOverlapWhileAlive) {
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    std::mt19937_64 rng(seed);
    std::vector<ArenaItem> items(rng() % 40);
    for (ArenaItem& item : items) {
      item.bytes = rng() % 5 == 0 ? 0 : rng() % 1000;
      item.first_level = static_cast<uint32_t>(rng() % 20);
      item.last_level = item.first_level + static_cast<uint32_t>(rng() % 6);
    }
    const uint64_t alignment = uint64_t{1} << (rng() % 9);
    const ArenaLayout layout = layout_arena(items, alignment);
    ASSERT_EQ(layout.offsets.size(), items.size());
    uint64_t end = 0;
    for (size_t a = 0; a < items.size(); ++a) {
      ASSERT_EQ(layout.offsets[a] % alignment, 0u);
      end = std::max(end, layout.offsets[a] + items[a].bytes);
      for (size_t b = 0; b < a; ++b) {
        const bool together = items[a].first_level <= items[b].last_level &&
                              items[b].first_level <= items[a].last_level;
        const bool apart = layout.offsets[a] + items[a].bytes <= layout.offsets[b] ||
                           layout.offsets[b] + items[b].bytes <= layout.offsets[a];
        ASSERT_TRUE(!together || apart) << seed << ": items " << a << " and " << b;
      }
    }
    ASSERT_EQ(layout.bytes, end);
  }
}

TEST(Arena, ReusesMemoryAfterABarrier) {
  // A chain: each step reads the tensor of the step before.
  std::vector<ArenaItem> chain;
  for (uint32_t level = 0; level < 100; ++level) chain.push_back({4096, level, level + 1});
  EXPECT_EQ(layout_arena(chain, 256).bytes, 2 * 4096u);
  // Ranges that touch are alive in the same level.
  EXPECT_EQ(layout_arena({{64, 0, 1}, {64, 1, 2}}, 64).bytes, 128u);
  EXPECT_EQ(layout_arena({{64, 0, 1}, {64, 2, 2}}, 64).bytes, 64u);
  EXPECT_EQ(layout_arena({}, 64).bytes, 0u);
}

}  // namespace
}  // namespace reprise::plan
