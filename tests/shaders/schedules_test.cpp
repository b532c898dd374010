// The choice of a tile is a pure function of sizes and device: a table.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <regex>
#include <set>

#include "codegen/target/device_costs.h"
#include "runtime/facts/cuda_arch.h"
#include "shaders/contraction.h"

namespace reprise::shaders {
namespace {

Predicate subgroups_of_8(bool slow_loads) {
  Predicate p;
  p.cpu_type = true;
  p.needs_subgroup_shuffle = true;
  p.subgroup_size = 8;
  p.slow_loads = slow_loads;
  return p;
}

Predicate matrices(uint32_t subgroup_size, const MmaConfig& config) {
  Predicate p;
  p.subgroup_size = subgroup_size;
  p.matrices = {config};
  p.shared_bytes = 32768;
  return p;
}

Predicate cuda(const std::string& arch) {
  Predicate p = matrices(32, {16, 16, 16});
  p.api = Api::Cuda;
  p.cuda_arch = arch;
  p.workgroup_invocations = 1024;
  p.shared_bytes = 49152;
  return p;
}

/// Of a device that gains by split products.
Predicate ampere() {
  Predicate p = cuda("sm_80");
  p.matrices = CudaArch::matrices_of(80, false);
  p.shared_bytes = CudaArch::shared_bytes_of(80, false);
  return p;
}

/// Of fp32, with operands that are copied if `copies`.
GemmSize split(GemmSize s, bool copies = true) {
  s.mma = kSplitMma;
  if (copies) s.a_copies = s.b_copies = {true, 4, 4};
  return s;
}

/// Of a device that has teams.
Predicate hopper() {
  Predicate p = cuda("sm_90a");
  p.matrices = CudaArch::matrices_of(90, true);
  p.shared_bytes = CudaArch::shared_bytes_of(90, true);
  return p;
}

GemmSize size_of(double m, double n, double k) {
  GemmSize s;
  s.m = m;
  s.n = n;
  s.k = k;
  return s;
}

GemmSize half(GemmSize s) {
  s.mma = kHalfMma;
  return s;
}

GemmSize copied(GemmSize s, bool b_along_k = false) {
  s.a_copies = {true, 8};
  s.b_copies = {b_along_k, 8};
  return half(s);
}

GemmSize batch(GemmSize s, double products) {
  s.batch = products;
  return s;
}

GemmSize constant(GemmSize s) {
  s.constant_result = true;
  return s;
}

/// A 3x3 convolution that reads its pixels one by one.
GemmSize convolution(double pixels, double channels) {
  GemmSize s = size_of(pixels, channels, 9 * channels);
  s.a_loads = 4;
  s.unrolled = 9;
  return s;
}

GemmSize dynamic(GemmSize size) {
  size.dynamic = true;
  return size;
}

TEST(Schedules, Choice) {
  Predicate cpu;
  cpu.cpu_type = true;
  const struct {
    const char* what;
    GemmSize size;
    Predicate device;
    const char* expected;
  } rows[] = {
      {"large", size_of(512, 512, 512), subgroups_of_8(false),
       "subgroup tile, columns by lane, 32x64"},
      {"large, dynamic", dynamic(size_of(512, 512, 512)), subgroups_of_8(false),
       "subgroup tile, columns by lane, 16x64"},
      {"large, fp16", half(size_of(512, 512, 512)), subgroups_of_8(false),
       "subgroup tile, columns by lane, 16x64"},
      {"large, slow loads", size_of(512, 512, 512), subgroups_of_8(true),
       "subgroup tile, rows by lane, 40x32"},
      {"convolution", convolution(3136, 64), subgroups_of_8(false),
       "subgroup tile, columns by lane, 16x64"},
      {"convolution, slow loads", convolution(3136, 64), subgroups_of_8(true),
       "subgroup tile, rows by lane, 40x32"},
      {"few channels, slow loads", convolution(12544, 16), subgroups_of_8(true),
       "subgroup tile, rows by lane, 56x16"},
      {"one row", size_of(1, 4096, 4096), subgroups_of_8(false),
       "subgroup tile, columns by lane, 1x64"},
      {"few columns", size_of(4096, 8, 512), subgroups_of_8(false),
       "subgroup tile, rows by lane, 64x8"},
      {"no subgroups of 8", size_of(512, 512, 512), cpu, "register tile 8x8"},
      {"GPU", size_of(512, 512, 512), Predicate{}, "shared tile 128x64"},
      {"larger, GPU", size_of(4096, 4096, 4096), Predicate{}, "shared tile 128x64"},
      {"few tiles, long sum, GPU", size_of(128, 128, 4096), Predicate{},
       "shared tile 16x32 in 4 slices"},
      {"few tiles, long sum, constant size, GPU", constant(size_of(16, 64, 4096)), Predicate{},
       "shared tile 16x32 in 4 slices, K split in 8"},
      {"few rows, GPU", size_of(16, 8192, 1024), Predicate{}, "shared tile 16x64 in 2 slices"},
      {"matrix units", half(size_of(512, 512, 512)), matrices(32, {16, 16, 16}),
       "cooperative matrix tile 128x64x16"},
      {"asynchronous copies", copied(size_of(4096, 4096, 4096)), cuda("sm_80"),
       "async matrix tile 128x128x16, 3 stages"},
      {"asynchronous copies along k", copied(size_of(4096, 4096, 4096), true), cuda("sm_80"),
       "async matrix tile 128x128x16, 2 stages"},
      {"operands that cannot be copied", half(size_of(4096, 4096, 4096)), cuda("sm_80"),
       "cooperative matrix tile 128x128x16"},
      {"no asynchronous copies", copied(size_of(4096, 4096, 4096)), cuda("sm_75"),
       "cooperative matrix tile 128x128x16"},
      {"matrix units, fp32", size_of(512, 512, 512), matrices(32, {16, 16, 16}),
       "shared tile 128x64"},
      {"split products", split(size_of(4096, 4096, 4096)), ampere(),
       "async matrix tile 128x128x16, 3 stages"},
      {"split products of what cannot be copied", split(size_of(4096, 4096, 4096), false), ampere(),
       "cooperative matrix tile 128x128x16"},
      {"split products, no such matrices", split(size_of(4096, 4096, 4096)), cuda("sm_80"),
       "shared tile 128x64"},
      {"split products, one row", split(size_of(1, 4096, 4096)), ampere(), "gemv 1x8 in 32 slices"},
      {"matrix units of 8x8x8", half(size_of(512, 512, 512)), matrices(8, {8, 8, 8}),
       "cooperative matrix tile 64x32x16"},
      {"matrix units, small", half(size_of(8, 16, 16)), matrices(32, {16, 16, 16}),
       "register tile 4x8"},
      {"fp16 without matrix units", half(size_of(512, 512, 512)), Predicate{},
       "shared tile 128x64"},
      {"small, GPU", size_of(32, 32, 16), Predicate{}, "register tile 4x8"},
      {"one row, GPU", size_of(1, 4096, 4096), Predicate{}, "gemv 1x8 in 32 slices"},
      {"one row, one column, GPU", size_of(1, 1, 4096), Predicate{}, "gemv 1x8 in 32 slices"},
      {"one row, short sum, GPU", size_of(1, 4096, 16), Predicate{}, "gemv 1x32 in 8 slices"},
      {"four rows, GPU", size_of(4, 2048, 2048), Predicate{}, "gemv 4x8 in 32 slices"},
      {"five rows, GPU", size_of(5, 2048, 2048), Predicate{}, "shared tile 16x32 in 4 slices"},
      {"one row, many products, GPU", batch(size_of(1, 64, 128), 32), Predicate{},
       "gemv 1x8 in 32 slices"},
  };
  for (const auto& r : rows) {
    EXPECT_EQ(candidates(r.size, r.device).front().describe(), r.expected) << r.what;
  }
}

/// The best tile with splits and the best without stand first, and no tile is there with several
/// numbers of splits: autotuning measures a few candidates.
TEST(Schedules, TheFirstTwoCandidatesAreWithAndWithoutSplits) {
  for (const double k : {512.0, 4096.0, 65536.0}) {
    const std::vector<Tile> all = candidates(constant(size_of(16, 64, k)), Predicate{});
    std::set<std::string> split;
    for (const Tile& t : all) {
      if (t.splits == 1) continue;
      const std::string name = t.describe().substr(0, t.describe().find(", K split"));
      EXPECT_TRUE(split.insert(name).second) << name << " for " << k;
    }
    EXPECT_FALSE(split.empty()) << k;
    if (all[0].splits == 1) continue;
    EXPECT_EQ(all[1].splits, 1) << k;
    for (size_t i = 1; i < all.size(); ++i)
      EXPECT_TRUE(all[i].splits > 1 || all[i].cost >= all[1].cost);
  }
}

TEST(Schedules, CandidatesAreOrderedAndFitTheBaseline) {
  for (const Predicate& device : {Predicate{}, subgroups_of_8(false), subgroups_of_8(true),
                                  matrices(32, {16, 16, 16}), matrices(8, {8, 8, 8})}) {
    for (const double rows : {1.0, 7.0, 64.0, 5000.0}) {
      const std::vector<Tile> all = candidates(half(size_of(rows, 100, 64)), device);
      ASSERT_FALSE(all.empty());
      std::set<std::string> names;
      for (size_t i = 0; i < all.size(); ++i) {
        const Tile& t = all[i];
        if (i > 0) {
          EXPECT_LE(all[i - 1].cost, t.cost);
        }
        EXPECT_TRUE(names.insert(t.describe()).second) << t.describe() << " twice";
        EXPECT_GT(t.cost, 0);
        EXPECT_LE(t.workgroup, 128U);
        EXPECT_EQ(t.columns % 4, 0);
        if (t.unit == Unit::Subgroup) {
          EXPECT_EQ(t.workgroup, device.subgroup_size);
        }
      }
    }
  }
}

/// Asynchronous copies bring one operand at least; a team converts those without views.
TEST(Schedules, OperandsMayBeConverted) {
  const auto offers = [](const GemmSize& size, const Predicate& device, const std::string& name) {
    return std::ranges::any_of(candidates(size, device),
                               [&](const Tile& t) { return name == t.schedule->name(); });
  };
  GemmSize size = copied(size_of(4096, 4096, 4096));
  size.a_copies.reset();
  EXPECT_TRUE(offers(size, cuda("sm_80"), "async matrix tile"));
  size.b_copies.reset();
  EXPECT_FALSE(offers(size, cuda("sm_80"), "async matrix tile"));
  EXPECT_FALSE(offers(size, hopper(), "team matrix tile"));
  size.converted = GemmSize::Converted{true, false, false};
  EXPECT_TRUE(offers(size, hopper(), "team matrix tile"));
}

/// Autotuning remembers tiles by their description.
TEST(Schedules, TilesOfSplitProductsHaveNamesOfTheirOwn) {
  for (const uint32_t bytes : {49152U, 101376U, 232448U}) {
    Predicate device = ampere();
    device.shared_bytes = bytes;
    std::set<std::string> names;
    for (const Tile& t : candidates(split(size_of(4096, 4096, 4096)), device))
      EXPECT_TRUE(names.insert(t.describe()).second) << t.describe() << " twice";
  }
}

TEST(Schedules, EveryScheduleIsReachable) {
  std::set<const Schedule*> seen;
  for (const Predicate& device :
       {Predicate{}, subgroups_of_8(false), matrices(32, {16, 16, 16}), cuda("sm_80"), hopper()}) {
    for (const double rows : {1.0, 300.0}) {
      for (const double block : {0.0, 32.0}) {
        GemmSize size = copied(size_of(rows, 300, 300));
        size.b_block = block;
        size.viewed = kernel::Ty::F16;
        for (const Tile& t : candidates(size, device)) seen.insert(t.schedule);
      }
    }
  }
  EXPECT_EQ(seen.size(), schedules().size());
}

/// So many workgroups run at once, each of which computes the tiles of a round.
TEST(Schedules, TilesOfTeamsPersist) {
  const auto team_tile = [](double m, double n, const std::string& name) -> std::optional<Tile> {
    GemmSize size = copied(size_of(m, n, 4096));
    size.viewed = kernel::Ty::F16;
    for (const Tile& t : candidates(size, hopper()))
      if (t.describe() == name) return t;
    return std::nullopt;
  };
  const std::string name = "team matrix tile 128x256x64, 4 stages";
  const auto whole = team_tile(128 * 11, 256 * 12, name), more = team_tile(128 * 19, 256 * 7, name),
             twice = team_tile(128 * 22, 256 * 12, name);
  ASSERT_TRUE(whole && more && twice);
  EXPECT_EQ(whole->groups, 132);
  EXPECT_GT(whole->band, 1);
  EXPECT_GT(more->cost, 1.9 * whole->cost) << "133 tiles take a second round";
  EXPECT_EQ(more->cost, twice->cost);
  EXPECT_LT(twice->cost, 2 * whole->cost) << "the first loads of a second tile are hidden";
}

/// The tiles of teams for a product of m x k and k x n, the cheapest first.
std::vector<Tile> team_tiles_of(double m, double n, double k) {
  GemmSize size = copied(size_of(m, n, k));
  size.viewed = kernel::Ty::F16;
  std::vector<Tile> all = candidates(size, hopper());
  std::erase_if(all, [](const Tile& t) { return !t.describe().starts_with("team matrix tile"); });
  return all;
}

/// Clusters share operands of large products, and sum parts of K in those with few tiles. Both can
/// be chosen; the first choice they are only with a gain that is worth the risk.
TEST(Schedules, ClustersOfTeams) {
  for (const double m : {4096, 8192, 16384}) {
    const std::vector<Tile> large = team_tiles_of(m, m, 4096);
    ASSERT_FALSE(large.empty());
    EXPECT_EQ(large[0].cluster(), 1) << large[0].describe();
    const auto shared =
        std::ranges::find_if(large, [](const Tile& t) { return t.cluster_rows == 2; });
    ASSERT_NE(shared, large.end());
    EXPECT_EQ(shared->groups, 66);
    EXPECT_EQ(shared->describe(),
              "team matrix tile 256x256x64, 4 stages, rows over a cluster of 2");
    EXPECT_LT(shared->cost, 1.1 * large[0].cost);
  }
  EXPECT_EQ(team_tiles_of(256, 256, 16384)[0].cluster_parts, 4);
  EXPECT_EQ(team_tiles_of(64, 64, 64)[0].cluster(), 1);
  for (const double m : {64, 1000, 8192}) {
    for (const double k : {64, 640, 8192}) {
      GemmSize size = copied(size_of(m, 1024, k));
      size.viewed = kernel::Ty::F16;
      for (const Tile& t : candidates(size, hopper())) {
        EXPECT_TRUE(t.cluster_rows == 1 || t.cluster_parts == 1) << t.describe();
        EXPECT_TRUE(t.cluster() == 1 || (t.splits == 1 && t.groups * t.cluster() == 132))
            << t.describe();
        EXPECT_TRUE(t.cluster_rows == 1 || t.rows / t.cluster_rows < m) << t.describe();
      }
      size.viewed.reset();
      size.converted = GemmSize::Converted{true, false, false};
      for (const Tile& t : candidates(size, hopper())) EXPECT_EQ(t.cluster(), 1) << t.describe();
    }
  }
}

/// Every price states its device, or that it is an estimate, and a day.
TEST(DeviceCosts, SayWhereTheyWereMeasured) {
  const std::regex form(R"((estimate|llvmpipe of Mesa [0-9.]+).*; 20[0-9]{2}-[0-9]{2}-[0-9]{2})");
  for (const std::string_view text :
       {kCpuCosts[0].measured_on, kCpuCosts[1].measured_on, kSeparateAttention.measured_on,
        kSeparateAttentionWins.measured_on, kGpuCosts.measured_on, kFusionCosts.measured_on}) {
    EXPECT_TRUE(std::regex_match(std::string(text), form)) << text;
  }
}

}  // namespace
}  // namespace reprise::shaders
