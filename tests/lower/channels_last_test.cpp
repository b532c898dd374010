// What kernels of convolutions and pools with channels last load and store: vectors of channels
// where there are four of them.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/compile/targets.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/lower/lower.h"

namespace reprise::lower {
namespace {

struct Case {
  const char* what;
  std::vector<int64_t> input;   // [N, spatial..., C]
  std::vector<int64_t> weight;  // as ONNX has it; none: a pool
  int64_t group = 1;
  const char* target;
  const char* schedule;  // part of its description
  bool vector_loads, single_loads, vector_stores;
};

std::string dims(const std::vector<int64_t>& d) {
  std::string out;
  for (const int64_t x : d) out += (out.empty() ? "" : ",") + std::to_string(x);
  return out;
}

std::string list(size_t count, int64_t value) {
  return "[" + dims(std::vector<int64_t>(count, value)) + "]";
}

std::string model(const Case& c) {
  const size_t rank = c.input.size() - 2;
  std::string text = "graph last\ninput x: float32[" + dims(c.input) + "]\n";
  const std::string window = "channels_last=1, dilations=" + list(rank, 1) +
                             ", pads=" + list(2 * rank, 1) + ", strides=" + list(rank, 1);
  if (c.weight.empty()) {
    return text + "y = MaxPool<ceil_mode=0, kernel_shape=" + list(rank, 3) + ", " + window +
           ">(x)\noutput y\n";
  }
  int64_t count = 1;
  for (const int64_t d : c.weight) count *= d;
  text += "const w: float32[" + dims(c.weight) + "]{1";
  for (int64_t i = 1; i < count; ++i) text += ", " + std::to_string(i % 5);
  return text + "}\ny = Conv<group=" + std::to_string(c.group) + ", " + window +
         ">(x, w)\noutput y\n";
}

Target target_of(const std::string& name) {
  const std::vector<Target> all = vulkan_targets();
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const Target& t) { return t.name == name; });
  EXPECT_NE(at, all.end()) << name;
  return at == all.end() ? Target{} : *at;
}

struct Accesses {
  bool vectors = false, singles = false;
};

Accesses accesses(const Lowered& lowered, graph::ValueId v, kernel::Op op) {
  const LoweredLaunch& l = lowered.launches[0];
  const auto at = std::find_if(l.buffers.begin(), l.buffers.end(),
                               [&](const LoweredBuffer& b) { return b.value == v; });
  const auto buffer = static_cast<uint64_t>(at - l.buffers.begin());
  Accesses out;
  for (const kernel::Inst& i : l.kernel.insts) {
    if (i.op != op || i.imm != buffer) continue;
    const uint8_t lanes = op == kernel::Op::Load
                              ? i.type.lanes
                              : l.kernel.insts[static_cast<size_t>(i.args[1].id)].type.lanes;
    (lanes == 4 ? out.vectors : out.singles) = true;
  }
  return out;
}

TEST(ChannelsLast, Accesses) {
  constexpr const char* kFast = "vulkan-cpu-sg8";
  constexpr const char* kSlow = "vulkan-cpu-sg8-slow-loads";
  constexpr const char* kGpu = "vulkan-int64";
  const Case cases[] = {
      {"product", {1, 16, 16, 64}, {64, 64, 3, 3}, 1, kFast, "implicit gemm", true, false, true},
      {"1x1", {1, 16, 16, 64}, {64, 64, 1, 1}, 1, kFast, "implicit gemm", true, false, true},
      {"1-D", {1, 64, 32}, {32, 32, 3}, 1, kFast, "implicit gemm", true, false, true},
      {"on a GPU", {1, 64, 64, 64}, {64, 64, 3, 3}, 1, kGpu, "shared tile", true, false, true},
      {"groups", {1, 16, 16, 64}, {64, 32, 3, 3}, 2, kFast, "implicit gemm", true, false, true},
      {"six channels", {1, 16, 16, 6}, {6, 6, 3, 3}, 1, kFast, "implicit gemm", false, true, false},
      {"three channels",
       {1, 16, 16, 3},
       {8, 3, 3, 3},
       1,
       kFast,
       "implicit gemm",
       false,
       true,
       true},
      {"slow loads", {1, 16, 16, 64}, {64, 64, 3, 3}, 1, kSlow, "implicit gemm", false, true, true},
      {"long rows", {1, 16, 16, 64}, {64, 64, 5, 5}, 1, kFast, "implicit gemm", false, true, true},
      {"depthwise", {1, 16, 16, 8}, {8, 1, 3, 3}, 8, kFast, "windows of 8 v4", true, false, true},
      {"depthwise, odd", {1, 16, 16, 5}, {5, 1, 3, 3}, 5, kFast, "direct", false, true, false},
      {"pool", {1, 16, 16, 8}, {}, 1, kFast, "pointwise v4", true, false, true},
      {"pool, odd", {1, 15, 15, 5}, {}, 1, kFast, "pointwise v1", false, true, false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    auto g = graph::parse(model(c));
    ASSERT_TRUE(g.ok()) << g.status().message();
    const auto fusion = fuse(**g);
    ASSERT_TRUE(fusion.ok()) << fusion.status().message();
    const auto l = lower(**g, fusion->groups.at(0), target_of(c.target));
    ASSERT_TRUE(l.ok()) << l.status().message();
    EXPECT_NE(l->schedule.find(c.schedule), std::string::npos) << l->schedule;
    const Accesses loads = accesses(*l, (*g)->inputs[0], kernel::Op::Load);
    const Accesses stores = accesses(*l, (*g)->outputs[0], kernel::Op::Store);
    EXPECT_EQ(loads.vectors, c.vector_loads);
    EXPECT_EQ(loads.singles, c.single_loads);
    EXPECT_EQ(stores.vectors, c.vector_stores);
    EXPECT_EQ(stores.singles, !c.vector_stores);
  }
}

}  // namespace
}  // namespace reprise::lower
