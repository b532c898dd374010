// Which products compute the normalisation of their row themselves, and which read it.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/compile/targets.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/lower/lower.h"
#include "codegen/passes/pass.h"

namespace reprise::lower {
namespace {

struct Model {
  std::string rows = "1,64";
  std::string columns = "128";
  std::string product = "y = MatMul(n, w) @13\n";
  std::string outputs = "y";
  int subgroup = 8;  // 0: any device
};

std::string text_of(const Model& m) {
  return "graph g\ninput x: float32[" + m.rows + "]\ninput s: float32[64]\ninput w: float32[64," +
         m.columns + "]\nn = RMSNormalization<axis=-1>(x, s) @23\n" + m.product + "output " +
         m.outputs + "\n";
}

Result<Fusion> fused(graph::Graph& g, const Model& m) {
  for (const passes::Pass& p : passes::pipeline()) RP_TRY(passes::run(p, g));
  Predicate device;
  if (m.subgroup > 0) {
    device.cpu_type = device.needs_subgroup_shuffle = true;
    device.subgroup_size = m.subgroup;
  }
  return fuse(g, {.device = device});
}

/// How many kernels compute a product and reductions of its row, and how many row kernels are left.
struct Kernels {
  int64_t products = 0, rows = 0;
  bool operator==(const Kernels&) const = default;
};

Kernels kernels_of(const Model& m) {
  auto g = graph::parse(text_of(m));
  EXPECT_TRUE(g.ok()) << g.status().message();
  if (!g.ok()) return {-1, -1};
  const auto fusion = fused(**g, m);
  EXPECT_TRUE(fusion.ok()) << fusion.status().message();
  if (!fusion.ok()) return {-1, -1};
  Kernels out;
  for (const Group& group : fusion->groups) {
    const bool reduces =
        std::ranges::any_of(group.nodes, [](const graph::Node* n) { return is_reduction(*n); });
    if (!reduces) continue;
    ++(row_of(group.kind).reduces_rows ? out.rows : out.products);
  }
  return out;
}

constexpr Kernels kFused{1, 0}, kApart{0, 1};

TEST(RowValues, AProductComputesTheNormalisationOfItsOnlyRow) {
  EXPECT_EQ(kernels_of({}), kFused);
  EXPECT_EQ(kernels_of({.rows = "1,1,64"}), kFused);
  EXPECT_EQ(kernels_of({.product = "y0 = MatMul(n, w) @13\ny = Relu(y0) @14\n"}), kFused);
}

TEST(RowValues, AllProductsThatReadItComputeIt) {
  const Model two{.product = "y = MatMul(n, w) @13\nr = Neg(w) @13\nz = MatMul(n, r) @13\n",
                  .outputs = "y, z"};
  EXPECT_EQ(kernels_of(two), (Kernels{2, 0}));
}

TEST(RowValues, MoreRowsShareLoadsOfTheWeight) {
  EXPECT_EQ(kernels_of({.rows = "2,64"}), kApart);
  EXPECT_EQ(kernels_of({.rows = "2,1,64"}), kApart);
}

TEST(RowValues, ADynamicNumberOfRowsMayBeLarge) {
  EXPECT_EQ(kernels_of({.rows = "n,64"}), kApart);
  EXPECT_EQ(kernels_of({.rows = "n,1,64"}), kApart);
}

TEST(RowValues, OthersThatReadItNeedIt) {
  EXPECT_EQ(kernels_of({.outputs = "y, n"}), kApart);
  EXPECT_EQ(
      kernels_of({.product = "y = MatMul(n, w) @13\nz = Neg(n) @13\n", .outputs = "y, z"}).products,
      0);
  EXPECT_EQ(kernels_of({.product = "t = Transpose<perm=[1, 0]>(w) @13\n"
                                   "u = Transpose<perm=[1, 0]>(n) @13\ny = MatMul(t, u) @13\n"}),
            kApart);
}

TEST(RowValues, WideProductsWouldReadTheRowTooOften) {
  EXPECT_EQ(kernels_of({.columns = "65536"}), kApart);
}

TEST(RowValues, OtherDevicesKeepARowKernel) {
  EXPECT_EQ(kernels_of({.subgroup = 0}), kApart);
  EXPECT_EQ(kernels_of({.subgroup = 4}), kApart);
}

/// Tiles of several rows would compute the reductions of one of them for all.
TEST(RowValues, TilesHaveOneRow) {
  const Model m;
  auto g = graph::parse(text_of(m));
  ASSERT_TRUE(g.ok()) << g.status().message();
  const auto fusion = fused(**g, m);
  ASSERT_TRUE(fusion.ok()) << fusion.status().message();
  ASSERT_EQ(fusion->groups.size(), 1U);
  for (const Target& target : vulkan_targets()) {
    const auto l = lower(**g, fusion->groups[0], target);
    ASSERT_TRUE(l.ok()) << target.name << ": " << l.status().message();
    for (const ScheduleCandidate& c : l->choices)
      EXPECT_NE(c.schedule.find(" 1x"), std::string::npos) << target.name << ": " << c.schedule;
  }
}

}  // namespace
}  // namespace reprise::lower
