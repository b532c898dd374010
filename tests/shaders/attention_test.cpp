// The choice of attention's tile is a pure function of sizes and device: a table.
#include "shaders/attention.h"

#include <gtest/gtest.h>

#include <set>

namespace reprise::shaders {
namespace {

Predicate cpu_device(bool subgroups_of_8, bool slow_loads = false) {
  Predicate p;
  p.cpu_type = true;
  p.needs_subgroup_shuffle = subgroups_of_8;
  p.subgroup_size = subgroups_of_8 ? 8 : 0;
  p.slow_loads = slow_loads;
  return p;
}

AttentionSize attention_size(double rows, double keys, int head) {
  AttentionSize s;
  s.batch = 8;
  s.rows = rows;
  s.keys = keys;
  s.depth = head;
  s.known_depth = head;
  s.columns = head;
  return s;
}

TEST(Attention, Choice) {
  Predicate large;
  large.workgroup_invocations = 1024;
  const Predicate little_memory = large;
  large.shared_bytes = 49152;
  const struct {
    const char* what;
    AttentionSize size;
    Predicate device;
    const char* expected;
  } rows[] = {
      {"long", attention_size(2048, 2048, 64), cpu_device(true), "attention, by subgroups, 32x64"},
      {"vision transformer", attention_size(197, 197, 64), cpu_device(true),
       "attention, by subgroups, 16x40"},
      {"short", attention_size(16, 16, 32), cpu_device(true), "attention, by subgroups, 2x16"},
      {"one row", attention_size(1, 512, 64), cpu_device(true), "attention, by subgroups, 1x64"},
      {"slow loads", attention_size(512, 512, 64), cpu_device(true, true),
       "attention, by subgroups, 32x32"},
      {"slow loads, short", attention_size(16, 16, 64), cpu_device(true, true),
       "attention, by subgroups, 4x16"},
      {"no subgroups of 8", attention_size(512, 512, 64), cpu_device(false), "attention 4x8"},
      {"GPU", attention_size(512, 512, 64), Predicate{}, "attention, shared blocks 64x32"},
      {"GPU, one row", attention_size(1, 2048, 64), Predicate{},
       "attention, a row per workgroup, 1x128"},
      {"GPU, one row, large workgroups", attention_size(1, 2048, 64), large,
       "attention, a row per workgroup, 1x512"},
      {"GPU, one row, large workgroups, 16 KB", attention_size(1, 2048, 64), little_memory,
       "attention, a row per workgroup, 1x256"},
      {"GPU, two keys", attention_size(2048, 2, 64), Predicate{}, "attention 1x2"},
  };
  for (const auto& r : rows) {
    EXPECT_EQ(attention_tiles(r.size, r.device).front().describe(), r.expected) << r.what;
  }
}

AttentionSize narrow_size(double rows, double keys, int head) {
  AttentionSize s = attention_size(rows, keys, head);
  s.mma = kHalfMma;
  s.copied = {8, 8, 8};
  return s;
}

TEST(Attention, MatrixUnits) {
  Predicate device;
  device.api = Api::Cuda;
  device.cuda_arch = "sm_80";
  device.subgroup_size = 32;
  device.workgroup_invocations = 1024;
  device.shared_bytes = 99U << 10U;
  device.matrices = {{16, 16, 16, kHalfMma}};
  for (const int head : {16, 32, 40, 64, 96, 128, 192, 256}) {
    const auto tiles = attention_tiles(narrow_size(512, 512, head), device);
    EXPECT_TRUE(tiles.front().describe().starts_with("attention, matrices ")) << head;
    for (const AttentionTile& t : tiles) {
      if (!t.matrix) continue;
      EXPECT_EQ(t.columns % 16, 0);
      EXPECT_GE(t.columns, head);
      EXPECT_EQ(t.subgroup_size, 32U);
      EXPECT_EQ(t.rows % 16, 0);
    }
  }
  const auto none = [&](const AttentionSize& size, const Predicate& p) {
    for (const AttentionTile& t : attention_tiles(size, p)) EXPECT_FALSE(t.matrix);
  };
  none(attention_size(512, 512, 64), device);  // of fp32
  AttentionSize apart = narrow_size(512, 512, 64);
  apart.copied[1] = 0;
  none(apart, device);
  none(narrow_size(512, 512, 320), device);
  Predicate vulkan = device;
  vulkan.api = Api::Vulkan;
  vulkan.cuda_arch.clear();
  none(narrow_size(512, 512, 64), vulkan);
  Predicate old = device;
  old.matrices.clear();
  none(narrow_size(512, 512, 64), old);
}

/// Separate kernels are faster for little work only, and only where that was measured.
TEST(Attention, PriceOfSeparateKernels) {
  const auto separate = [](double heads, AttentionSize size, const Predicate& device) {
    size.batch = heads;
    return separate_cost(size, device) < attention_tiles(size, device).front().cost;
  };
  EXPECT_TRUE(separate(4, attention_size(16, 16, 128), cpu_device(true)));
  EXPECT_TRUE(separate(1, attention_size(64, 64, 64), cpu_device(true)));
  EXPECT_FALSE(separate(1, attention_size(16, 16, 32), cpu_device(true))) << "launches cost more";
  EXPECT_FALSE(separate(12, attention_size(64, 64, 64), cpu_device(true)));
  EXPECT_FALSE(separate(12, attention_size(128, 128, 128), cpu_device(true)));
  for (const double heads : {1, 4, 12, 32})
    EXPECT_FALSE(separate(heads, attention_size(1, 2048, 64), cpu_device(true)))
        << "one row of queries";
  for (const Predicate& device : {Predicate{}, cpu_device(false)})
    EXPECT_FALSE(separate(4, attention_size(16, 16, 128), device));
  const struct {
    double heads, length;
    int size;
    bool separate;
  } slow[] = {
      {12, 8, 128, false}, {12, 16, 32, false}, {12, 16, 64, true},    {12, 16, 128, true},
      {1, 16, 128, false}, {4, 16, 64, false},  {1, 32, 128, true},    {12, 32, 64, false},
      {4, 64, 128, true},  {4, 128, 128, true}, {12, 128, 128, false}, {4, 256, 128, false},
  };
  for (const auto& c : slow) {
    EXPECT_EQ(separate(c.heads, attention_size(c.length, c.length, c.size), cpu_device(true, true)),
              c.separate)
        << c.heads << " heads of " << c.size << ", " << c.length << " rows";
  }
}

TEST(Attention, TilesAreOrderedAndFitTheBaseline) {
  for (const Predicate& device :
       {Predicate{}, cpu_device(false), cpu_device(true), cpu_device(true, true)}) {
    for (const double rows : {1.0, 7.0, 64.0, 5000.0}) {
      for (const int columns : {1, 12, 64, kMaxAttentionColumns}) {
        const std::vector<AttentionTile> all =
            attention_tiles(attention_size(rows, 100, columns), device);
        ASSERT_FALSE(all.empty());
        std::set<std::string> names;
        for (size_t i = 0; i < all.size(); ++i) {
          const AttentionTile& t = all[i];
          if (i > 0) {
            EXPECT_LE(all[i - 1].cost, t.cost);
          }
          EXPECT_TRUE(names.insert(t.describe()).second) << t.describe() << " twice";
          EXPECT_GT(t.cost, 0);
          EXPECT_LE(t.workgroup, 128U);
          EXPECT_EQ(t.per_invocation % 4, 0);
          const int sharers = t.chunk > 0 ? 8 : t.lanes;
          EXPECT_EQ(t.columns, t.per_invocation * sharers);
          // On GPUs several units of work share the columns of wide heads, evenly.
          const int parts = device.cpu_type || columns <= 128 ? 1 : 2;
          EXPECT_GE(t.columns * parts, columns);
          EXPECT_LT(t.columns * parts, columns + 4 * sharers * parts);
          EXPECT_TRUE(device.cpu_type || t.chunk > 0 || t.keys == 1 || t.keys * columns <= 512);
          if (t.unit == Unit::Subgroup) {
            EXPECT_EQ(t.subgroup_size, device.subgroup_size);
            EXPECT_EQ(t.workgroup, device.subgroup_size);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace reprise::shaders
