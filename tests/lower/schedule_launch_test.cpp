// Plans sort their launches. The report says which launch of the sorted plan each choice belongs
// to.
#include <gtest/gtest.h>

#include "codegen/compile/compiler.h"
#include "codegen/graph/text/text.h"

namespace reprise {
namespace {

// Two independent chains: the sorted plan begins with the first product of each.
constexpr const char* kModel =
    "graph chains\n"
    "input x: float32[64,64]\n"
    "input y: float32[48,48]\n"
    "a = MatMul(x, x) @13 \"a\"\n"
    "b = MatMul(a, x) @13 \"b\"\n"
    "c = MatMul(y, y) @13 \"c\"\n"
    "d = MatMul(c, y) @13 \"d\"\n"
    "output b, d\n";

TEST(ScheduleLaunch, IsThatOfThePlan) {
  auto g = graph::parse(kModel);
  ASSERT_TRUE(g.ok()) << g.status().message();
  CompileOptions options;
  options.targets = {"vulkan-cpu-sg8"};
  CompileReport report;
  const auto p = compile(std::move(*g), options, &report);
  ASSERT_TRUE(p.ok()) << p.status().message();
  std::vector<const plan::Launch*> launches;
  for (const plan::Step& step : p->variants[0].plan.steps)
    launches.push_back(&std::get<plan::Launch>(step.what));
  ASSERT_EQ(launches.size(), 4U);
  EXPECT_EQ(launches[1]->nodes, std::vector<std::string>{"c"});
  ASSERT_EQ(report.schedules.size(), 4U);
  const size_t expected[] = {0, 2, 1, 3};  // of a, b, c, d
  for (size_t i = 0; i < 4; ++i) {
    const ScheduleChoice& c = report.schedules[i];
    EXPECT_EQ(c.site.number, i);
    EXPECT_EQ(c.launches, std::vector<size_t>{expected[i]});
  }
}

size_t first_split(const ScheduleSite& site) {
  for (size_t i = 0; i < site.candidates.size(); ++i) {
    if (site.candidates[i].schedule.find("K split in") != std::string::npos) return i;
  }
  return 0;
}

/// A GEMM whose K is split is two launches, which the report names, with scratch memory between
/// them.
TEST(ScheduleLaunch, OfSplitKAreTwo) {
  auto g = graph::parse(
      "graph split\ninput x: float32[16,512]\ninput y: float32[512,16]\n"
      "p = MatMul(x, y) @13 \"p\"\nz = Relu(p) @14 \"z\"\noutput z\n");
  ASSERT_TRUE(g.ok()) << g.status().message();
  CompileOptions options;
  options.targets = {"vulkan-int64"};
  options.choose_schedule = first_split;
  CompileReport report;
  const auto p = compile(std::move(*g), options, &report);
  ASSERT_TRUE(p.ok()) << p.status().message();
  ASSERT_EQ(report.schedules.size(), 1U);
  ASSERT_GT(report.schedules[0].chosen, 0U) << "no schedule splits K";
  EXPECT_EQ(report.schedules[0].launches, (std::vector<size_t>{0, 1}));
  const plan::Plan& plan = p->variants[0].plan;
  ASSERT_EQ(plan.steps.size(), 2U);
  const auto& parts = std::get<plan::Launch>(plan.steps[0].what);
  const auto& added = std::get<plan::Launch>(plan.steps[1].what);
  EXPECT_EQ(parts.nodes, added.nodes);
  EXPECT_EQ(parts.schedule, added.schedule);
  EXPECT_EQ(parts.buffers.front(), added.buffers.front());
  const plan::Buffer& scratch = plan.buffers[added.buffers.front()];
  EXPECT_EQ(scratch.kind, plan::BufferKind::Arena);
  EXPECT_LT(plan.steps[0].level, plan.steps[1].level);
}

}  // namespace
}  // namespace reprise
