// Plans sort their launches. The report says which launch of the sorted plan each choice belongs
// to.
#include <gtest/gtest.h>

#include "codegen/compiler.h"
#include "codegen/graph/text.h"

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
    EXPECT_EQ(c.launch, expected[i]);
  }
}

}  // namespace
}  // namespace reprise
