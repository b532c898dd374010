// Launches of so many workgroups that their grid has a second dimension, and with it workgroups
// beyond the last that is needed.
#include <gtest/gtest.h>

#include "codegen/compile/targets.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/lower/lower.h"
#include "codegen/passes/pass.h"
#include "codegen/probes/probe_memory.h"
#include "runtime/facts/cuda_arch.h"

namespace reprise::lower {
namespace {

struct GridModel {
  const char* name;
  const char* text;
};

// The numbers of rows, lines and tiles are powers of two, so that workgroups divide them.
constexpr GridModel kModels[] = {
    {"short_rows",
     "graph g\ninput x: float32[1048576,4]\ny = ReduceSum<axes=[1]>(x) @11\noutput y\n"},
    {"long_rows",
     "graph g\ninput x: float32[131072,2048]\ny = Softmax<axis=-1>(x) @13\noutput y\n"},
    {"lines",
     "graph g\ninput x: float32[8388608,4]\nconst a: int64[1]{1}\n"
     "y = CumSum(x, a) @14\noutput y\n"},
    {"lines_of_columns",
     "graph g\ninput x: float32[4,33554432]\nconst a: int64[1]{0}\n"
     "y = CumSum(x, a) @14\noutput y\n"},
    {"depthwise",
     "graph g\ninput x: float32[8,64,512,512]\ninput w: float32[64,1,3,3]\n"
     "y = Conv<group=64, kernel_shape=[3, 3], pads=[1, 1, 1, 1]>(x, w) @11\noutput y\n"},
    {"product",
     "graph g\ninput x: float32[8388608,8]\ninput w: float32[8,64]\n"
     "y = MatMul(x, w) @13\noutput y\n"},
    {"products",
     "graph g\ninput x: float32[524288,8,8]\ninput w: float32[524288,8,8]\n"
     "y = MatMul(x, w) @13\noutput y\n"},
    {"pointwise", "graph g\ninput x: float32[67108864]\ny = Relu(x) @14\noutput y\n"},
};

int64_t elements_of(const graph::Graph& g, const Lowered& l, const LoweredBuffer& b) {
  const Shape& shape = b.scratch ? l.scratch[*b.scratch].shape : g.value(b.value).shape;
  int64_t count = 1;
  for (const Expr& d : shape) count *= d.value();
  return count;
}

/// Interprets the last workgroup of each row of the grid.
void run_ends(const graph::Graph& g, const Lowered& l, const LoweredLaunch& launch,
              bool* is_plane) {
  kernel::PartialLaunch partial;
  for (size_t a = 0; a < 3; ++a) partial.grid[a] = static_cast<uint32_t>(launch.grid[a].value());
  *is_plane = *is_plane || partial.grid[1] > 1;
  for (uint32_t y = 0; y < partial.grid[1]; ++y)
    partial.workgroups.push_back({partial.grid[0] - 1, y, 0});
  for (const Expr& e : launch.scalars) partial.scalars.push_back(static_cast<uint32_t>(e.value()));
  std::vector<ProbeMemory::Parameter> parameters;
  for (size_t i = 0; i < launch.buffers.size(); ++i) {
    const LoweredBuffer& b = launch.buffers[i];
    const DType dtype = b.scratch ? l.scratch[*b.scratch].dtype : g.value(b.value).dtype;
    const auto bytes = static_cast<uint64_t>(elements_of(g, l, b)) * size_of(dtype);
    parameters.push_back({launch.kernel.buffers[i].storage, dtype, (bytes + 3) / 4 * 4, i, false});
  }
  const auto& w = launch.kernel.workgroup;
  ProbeFills fills;
  ProbeMemory memory(fills, 0, std::move(parameters), w[0] * w[1] * w[2]);
  partial.memory = &memory;
  const auto outcome = kernel::interpret_some(launch.kernel, partial);
  EXPECT_TRUE(outcome.ok()) << outcome.status().message();
}

class Grid : public testing::TestWithParam<GridModel> {};

TEST_P(Grid, WorkgroupsBeyondTheLastDoNothing) {
  auto g = graph::parse(GetParam().text);
  ASSERT_TRUE(g.ok()) << g.status().message();
  for (const passes::Pass& p : passes::pipeline()) ASSERT_TRUE(passes::run(p, **g).ok()) << p.name;
  const auto fusion = fuse(**g);
  ASSERT_TRUE(fusion.ok()) << fusion.status().message();
  std::vector<Target> targets = vulkan_targets();
  targets.push_back(cuda_target(*CudaArch::parse("sm_90")));
  bool is_plane = false;
  for (const Target& target : targets) {
    for (const Group& group : fusion->groups) {
      const auto cheapest = lower(**g, group, target);
      ASSERT_TRUE(cheapest.ok()) << target.name << ": " << cheapest.status().message();
      const size_t choices = std::max<size_t>(cheapest->choices.size(), 1);
      for (size_t c = 0; c < choices; ++c) {
        const auto l = lower(**g, group, target, c);
        ASSERT_TRUE(l.ok()) << target.name << ": " << l.status().message();
        SCOPED_TRACE(target.name + ", " + l->schedule);
        for (const LoweredLaunch& launch : l->launches) run_ends(**g, *l, launch, &is_plane);
      }
    }
  }
  EXPECT_TRUE(is_plane);
}

INSTANTIATE_TEST_SUITE_P(Models, Grid, testing::ValuesIn(kModels),
                         [](const auto& which) { return std::string(which.param.name); });

}  // namespace
}  // namespace reprise::lower
