// The choice of a tile for the gradients of attention is a pure function of sizes and device.
#include "shaders/attention_grad.h"

#include <gtest/gtest.h>

#include <set>

namespace reprise::shaders {
namespace {

Predicate cpu(bool subgroups_of_8, bool slow_loads = false) {
  Predicate p;
  p.cpu_type = true;
  p.needs_subgroup_shuffle = subgroups_of_8;
  p.subgroup_size = subgroups_of_8 ? 8 : 0;
  p.slow_loads = slow_loads;
  return p;
}

AttentionGradSize size_of(GradOf of, double rows, double others, int head) {
  AttentionGradSize s;
  s.of = of;
  s.batch = 8;
  s.rows = rows;
  s.others = others;
  s.head = head;
  return s;
}

TEST(AttentionGrad, Choice) {
  const struct {
    const char* what;
    AttentionGradSize size;
    Predicate device;
    const char* expected;
  } rows[] = {
      {"queries", size_of(GradOf::Queries, 1024, 1024, 64), cpu(true),
       "attention gradient, by subgroups, 32x64"},
      {"keys", size_of(GradOf::Keys, 1024, 1024, 64), cpu(true),
       "attention gradient, by subgroups, 16x64"},
      {"one query", size_of(GradOf::Queries, 1, 512, 64), cpu(true),
       "attention gradient, by subgroups, 1x64"},
      {"no subgroups of 8", size_of(GradOf::Keys, 512, 512, 64), cpu(false),
       "attention gradient 2x8"},
      {"GPU", size_of(GradOf::Keys, 512, 512, 64), Predicate{},
       "attention gradient, shared blocks 64x32"},
      {"GPU, no multiple of 4", size_of(GradOf::Keys, 512, 512, 63), Predicate{},
       "attention gradient 1x8"},
  };
  for (const auto& r : rows)
    EXPECT_EQ(attention_grad_tiles(r.size, r.device).front().describe(), r.expected) << r.what;
}

/// Every device has tiles, whose sums fit its registers and whose units cover the head evenly.
TEST(AttentionGrad, TilesAreOrderedAndFitTheBaseline) {
  for (const Predicate& device : {Predicate{}, cpu(false), cpu(true), cpu(true, true)}) {
    for (const double rows : {1.0, 7.0, 64.0, 5000.0}) {
      for (const int head : {1, 12, 64, 128, kMaxAttentionColumns}) {
        for (const GradOf of : {GradOf::Queries, GradOf::Keys}) {
          const AttentionGradSize size = size_of(of, rows, 100, head);
          const auto all = attention_grad_tiles(size, device);
          ASSERT_FALSE(all.empty());
          std::set<std::string> names;
          for (size_t i = 0; i < all.size(); ++i) {
            const AttentionGradTile& t = all[i];
            if (i > 0) {
              EXPECT_LE(all[i - 1].cost, t.cost);
            }
            EXPECT_TRUE(names.insert(t.describe()).second) << t.describe() << " twice";
            EXPECT_GT(t.cost, 0);
            EXPECT_LE(t.workgroup, 128U);
            EXPECT_EQ(t.per_invocation % 4, 0);
            EXPECT_EQ(t.columns, t.per_invocation * (t.chunk > 0 ? 8 : t.lanes));
            const int sums = (t.chunk > 0 ? 4 : t.rows) * t.per_invocation * size.results();
            EXPECT_LE(sums, device.cpu_type ? 256 : 128) << t.describe();
            const int parts = (head + t.columns - 1) / t.columns;
            EXPECT_LE(parts, 4) << t.describe();
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace reprise::shaders
