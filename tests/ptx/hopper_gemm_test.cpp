// A whole GEMM for sm_90a as NVRTC compiles it, and what becomes of it if a line is missing or
// wrong.
#include <gtest/gtest.h>

#include <map>

#include "tests/ptx/assembly.h"
#include "tests/ptx/edits.h"
#include "tests/ptx/hopper_gemm.h"
#include "tests/ptx/needs.h"

namespace reprise::test {
namespace {

void expect_hopper_products(HopperGemm g, const std::vector<std::array<int, 3>>& sizes) {
  REPRISE_NEEDS_PTX();
  const auto ptx = hopper_gemm_ptx(g);
  ASSERT_TRUE(ptx.ok()) << ptx.status().message();
  for (const auto& [m, n, k] : sizes) {
    g.m = m;
    g.n = n;
    g.k = k;
    ++g.seed;
    g.options = {kOrders[g.seed % 3], g.seed};
    EXPECT_EQ(run_hopper_gemm(g, *ptx), "") << m << " x " << n << " x " << k;
  }
}

// Several tiles of a workgroup, more steps than the ring has stages, and every edge.
const std::vector<std::array<int, 3>> kGemmSizes{{128, 64, 64},  {128, 64, 320}, {256, 128, 256},
                                                 {1, 8, 8},      {130, 72, 200}, {65, 56, 264},
                                                 {127, 200, 72}, {300, 8, 136}};

TEST(PtxHopperGemm, OfRowsAndColumns) {
  expect_hopper_products({}, kGemmSizes);
}

TEST(PtxHopperGemm, OfRowsAndRows) {
  HopperGemm g;
  g.transposed = true;
  expect_hopper_products(g, kGemmSizes);
}

TEST(PtxHopperGemm, OfBrainFloats) {
  HopperGemm g;
  g.brain = true;
  g.groups = 1;
  expect_hopper_products(g, {{128, 64, 64}, {200, 136, 328}});
}

TEST(PtxHopperGemm, OfManySizesFull) {
  for (const bool transposed : {false, true}) {
    std::vector<std::array<int, 3>> sizes;
    for (int n = 1; n < 40; ++n)
      sizes.push_back({n * 37 % 400 + 1, n * 8 % 264 + 8, n * 24 % 520 + 8});
    HopperGemm g;
    g.transposed = transposed;
    g.groups = 3;
    expect_hopper_products(g, sizes);
  }
}

/// The line with the last operand of its instruction exchanged for one that is computed from it.
std::string with_operand(const std::string& line, const std::string& how) {
  const size_t end = line.find(';', line.find("mbarrier."));
  const size_t begin = line.rfind(' ', end) + 1;
  const std::string operand = line.substr(begin, end - begin);
  return "{ .reg .b32 other; " + how + " other, " + operand + ", 1; " +
         std::string(line).replace(begin, end - begin, "other") + " }";
}

/// What a line may be by mistake.
std::vector<std::string> gemm_mistakes(const std::string& line) {
  const auto has = [&](const char* part) { return line.find(part) != std::string::npos; };
  const auto dropped = [](std::string other) {
    return std::vector<std::string>{";", std::move(other)};
  };
  if (has("mbarrier.try_wait")) return dropped(with_operand(line, "xor.b32"));
  if (has("mbarrier.init")) return dropped(with_operand(line, "add.u32"));
  if (has("mbarrier.arrive.expect_tx"))
    return {";", with_operand(line, "add.u32"), with_operand(line, "sub.u32"),
            replaced(line, ".expect_tx.shared::cta.b64 _, [", ".shared::cta.b64 _, [")};
  if (has("mbarrier.arrive") || has(".mbarrier::complete_tx")) return dropped(line + "\n" + line);
  if (has("cp.async.bulk.wait_group")) return dropped(replaced(line, "read 0", "read 1"));
  if (has("wgmma.wait_group")) return dropped(replaced(line, "aligned 0", "aligned 1"));
  if (has("wgmma.mma_async"))
    return {";", replaced(line, "p, 1, 1, ", "p, -1, 1, "),
            replaced(line, ".f16.f16 ", ".bf16.bf16 ")};
  if (has("setp.eq.s32") && has(", 3;")) return {replaced(line, ", 3;", ", 2;")};  // the ring
  for (const char* part : {"wgmma.fence", "wgmma.commit", "bar.sync", "fence.proxy.async",
                           "cp.async.bulk", "stmatrix", "setmaxnreg.dec"}) {
    if (has(part)) return {";"};
  }
  return {};
}

/// Tiles, steps and edges so that every line matters; one tile more than a workgroup's first.
HopperGemm small_gemm() {
  HopperGemm g;
  g.m = 130;
  g.n = 72;
  g.k = 4 * 64 + 8;
  g.groups = 1;
  return g;
}

void expect_mistakes_found(const HopperGemm& g) {
  const auto ptx = hopper_gemm_ptx(g);
  ASSERT_TRUE(ptx.ok()) << ptx.status().message();
  ASSERT_EQ(run_hopper_gemm(g, *ptx), "");
  const std::vector<std::string> lines = lines_of(*ptx);
  std::map<std::string, size_t> tried;
  for (size_t n = 0; n < lines.size(); ++n) {
    for (const std::string& mistake : gemm_mistakes(lines[n])) {
      ASSERT_NE(mistake, "") << lines[n];
      const size_t name = lines[n].find_first_not_of(" \t");
      // Lines repeat themselves; a few of each kind take long enough.
      if (++tried[lines[n].substr(name, 40)] > 6) continue;
      std::vector<std::string> changed = lines;
      changed[n] = mistake;
      EXPECT_NE(run_hopper_gemm(g, joined(changed)), "")
          << n + 1 << ": " << lines[n] << " became " << mistake;
    }
  }
  EXPECT_GE(tried.size(), 15U);
}

TEST(PtxHopperGemm, MistakesAreFound) {
  REPRISE_NEEDS_PTX();
  HopperGemm g = small_gemm();
  g.options = {ptx::Completion::Random, 3};
  expect_mistakes_found(g);
}

TEST(PtxHopperGemm, MistakesAreFoundInEveryOrderFull) {
  REPRISE_NEEDS_PTX();
  for (const ptx::Completion order : kOrders) {
    for (uint64_t seed = 1; seed < 4; ++seed) {
      HopperGemm g = small_gemm();
      g.options = {order, seed};
      expect_mistakes_found(g);
      g.transposed = true;
      expect_mistakes_found(g);
    }
  }
}

}  // namespace
}  // namespace reprise::test
