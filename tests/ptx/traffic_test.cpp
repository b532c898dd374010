// How often banks of shared memory are in each other's way, and what of a sector is used.
#include <gtest/gtest.h>

#include "codegen/graph/text/text.h"
#include "codegen/passes/pass.h"
#include "tests/ptx/graphs.h"
#include "tests/ptx/hopper.h"
#include "tests/ptx/needs.h"
#include "tests/support/tensors.h"

namespace reprise::test {
namespace {

ptx::Counters counted(const std::string& body) {
  HopperMemory m;
  m.threads = 32;
  m.in.resize(65536);
  m.out.resize(65536);
  ptx::Counters c;
  m.options.counters = &c;
  EXPECT_EQ(run_hopper("mov.u32 %r0, smem;\n" + body, m).message(), "");
  return c;
}

/// Lane l accesses so many bytes at l * stride.
ptx::Counters of_stride(const std::string& what, uint32_t stride, uint32_t bytes) {
  const std::string list = bytes == 16 ? ".v4.u32" : bytes == 8 ? ".v2.u32" : ".u32";
  const std::string registers = bytes == 16 ? "{%t, %t, %t, %t}" : bytes == 8 ? "{%t, %t}" : "%t";
  const std::string offset = "mul.lo.u32 %r1, %t, " + std::to_string(stride) + ";\n";
  if (what == "shared")
    return counted(offset + "add.u32 %r1, %r1, %r0;\nst.shared" + list + " [%r1], " + registers +
                   ";\n");
  return counted(offset + "cvt.u64.u32 %q1, %r1;\nadd.s64 %q1, %q1, %out;\nst.global" + list +
                 " [%q1], " + registers + ";\n");
}

TEST(PtxTraffic, BanksAreCounted) {
  const auto passes = [](uint32_t stride, uint32_t bytes) {
    const ptx::Counters c = of_stride("shared", stride, bytes);
    return std::pair(c.of(ptx::Mover::Store).passes, c.of(ptx::Mover::Store).least);
  };
  using Passes = std::pair<uint64_t, uint64_t>;
  EXPECT_EQ(passes(4, 4), Passes(1, 1));
  EXPECT_EQ(passes(8, 4), Passes(2, 1));
  EXPECT_EQ(passes(128, 4), Passes(32, 1));
  EXPECT_EQ(passes(132, 4), Passes(1, 1));
  EXPECT_EQ(passes(8, 8), Passes(2, 2));
  EXPECT_EQ(passes(16, 16), Passes(4, 4));
  EXPECT_EQ(passes(32, 16), Passes(8, 4));
  EXPECT_EQ(passes(128, 16), Passes(32, 4));
  EXPECT_EQ(passes(144, 16), Passes(4, 4));
  // All lanes read one word.
  const ptx::Counters one = counted(
      "setp.eq.u32 %p1, %t, 0;\n@%p1 st.shared.u32 [%r0+512], %r0;\nbar.warp.sync -1;\n"
      "ld.shared.u32 %r2, [%r0+512];\n");
  EXPECT_EQ(one.shared_memory().passes, 2U);
}

TEST(PtxTraffic, SectorsAreCounted) {
  const auto use = [](uint32_t stride, uint32_t bytes) {
    return of_stride("global", stride, bytes).sector_use();
  };
  EXPECT_EQ(use(4, 4), 1);
  EXPECT_EQ(use(8, 4), 0.5);
  EXPECT_EQ(use(32, 4), 0.125);
  EXPECT_EQ(use(32, 16), 0.5);
  EXPECT_EQ(of_stride("global", 16, 16).sectors, 16U);
}

/// Full tiles of a GEMM with asynchronous copies: what it reads of shared memory, its sums there,
/// and all of global.
void expect_few_conflicts(const std::string& type) {
  PtxGraph graph;
  auto g = graph::parse("graph g\ninput x: " + type + "[rows,128]\ninput w: " + type +
                        "[128,128]\ny = MatMul(x, w) @13\noutput y\n");
  ASSERT_TRUE(g.ok()) << g.status().message();
  graph.g = std::move(*g);
  for (const passes::Pass& p : passes::pipeline()) ASSERT_TRUE(passes::run(p, *graph.g).ok());
  graph.symbols = {128};
  std::mt19937 rng(3);
  for (const graph::ValueId v : graph.g->inputs) {
    const graph::Value& value = graph.g->value(v);
    graph.inputs.push_back(random_tensor(value.dtype, dims_of(value.shape, graph.symbols), rng));
  }
  size_t tiles = 1;
  for (size_t tile = 0; tile < tiles; ++tile) {
    std::vector<Lowering> lowered(1);
    auto one = lower_for_cuda(*graph.g, [&](const auto& choices) {
      std::vector<size_t> found;
      for (size_t n = 0; n < choices.size(); ++n)
        if (choices[n].schedule.starts_with("async matrix tile")) found.push_back(n);
      tiles = std::max(tiles, found.size());
      return tile < found.size() ? found[tile] : size_t{0};
    });
    ASSERT_TRUE(one.ok()) << one.status().message();
    lowered[0] = std::move(*one);
    auto module = PtxModule::load(name_kernels(lowered));
    ASSERT_TRUE(module.ok()) << module.status().message();
    ptx::Counters c;
    module->options.counters = &c;
    EXPECT_EQ(differs(graph, lowered[0], *module, 1e-5), "");
    for (const ptx::Mover m : {ptx::Mover::Load, ptx::Mover::Blocks, ptx::Mover::Store}) {
      EXPECT_GT(c.of(m).passes, 100U);
      EXPECT_LE(c.of(m).conflicts(), 1.05) << "tile " << tile;
    }
    EXPECT_GE(c.sector_use(), 0.95) << "tile " << tile;
  }
  EXPECT_GE(tiles, 2U);
}

TEST(PtxTraffic, OfAsynchronousTiles) {
  REPRISE_NEEDS_PTX();
  for (const char* type : {"float16", "float32"}) {
    SCOPED_TRACE(type);
    expect_few_conflicts(type);
  }
}

}  // namespace
}  // namespace reprise::test
