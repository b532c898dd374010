// A group whose kernel cannot be written is a fault of the compiler, not of the model.
#include <gtest/gtest.h>

#include <set>

#include "codegen/compile/compiler.h"
#include "codegen/graph/text/text.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/lower/launch/lowered.h"
#include "codegen/options/compile_hooks.h"
#include "codegen/passes/pass.h"
#include "tests/support/hooks.h"

namespace reprise {
namespace {

constexpr const char* kModel =
    "graph product\n"
    "input x: float32[16,32]\n"
    "const w: float32[32,2]{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, "
    "8, "
    "1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, "
    "8, 1, 2, 3, 4, 5, 6, 7, 8}\n"
    "m = MatMul(x, w) @13 \"product\"\n"
    "y = Relu(m) @14 \"relu\"\n"
    "z = Tanh(y) @13 \"tanh\"\n"
    "output z\n";

std::unique_ptr<graph::Graph> parsed() {
  auto g = graph::parse(kModel);
  EXPECT_TRUE(g.ok()) << g.status().message();
  return g.ok() ? std::move(*g) : nullptr;
}

size_t launches(const package::Package& p) {
  size_t n = 0;
  for (const plan::Step& step : p.variants[0].plan.steps)
    n += std::holds_alternative<plan::Launch>(step.what) ? 1 : 0;
  return n;
}

/// A schedule that does not exist stands for whatever lowering cannot do.
TEST(BrokenGroup, FallsApart) {
  std::string warning;
  CompileOptions options;
  options.targets = {"vulkan-cpu-sg8"};
  options.log = [&](const std::string& text) { warning = text; };
  CompileReport report;
  auto whole = compile(parsed(), options, &report);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_EQ(launches(*whole), 1U);
  EXPECT_TRUE(report.broken.empty());
  EXPECT_TRUE(warning.empty()) << warning;

  options.choose_schedule = [](const ScheduleSite& q) {
    return q.kernel.starts_with("fused") ? q.candidates.size() : 0;
  };
  auto apart = compile(parsed(), options, &report);
  ASSERT_TRUE(apart.ok()) << apart.status().message();
  EXPECT_EQ(launches(*apart), 3U);
  ASSERT_EQ(report.broken.size(), 1U);
  EXPECT_EQ(report.broken[0].variant, "vulkan-cpu-sg8");
  EXPECT_EQ(report.broken[0].kernel, "fused_matmul_relu_tanh");
  EXPECT_EQ(report.broken[0].why.code(), Code::Internal);
  EXPECT_NE(warning.find("report"), std::string::npos) << warning;
  EXPECT_EQ(report.schedules.size(), 3U);
  for (const ScheduleChoice& c : report.schedules)
    EXPECT_FALSE(c.site.kernel.starts_with("fused")) << "of the group that fell apart";
}

TEST(BrokenGroup, ALoneNodeIsAnError) {
  CompileOptions options;
  options.targets = {"vulkan-cpu-sg8"};
  options.choose_schedule = [](const ScheduleSite& q) { return q.candidates.size(); };
  const auto package = compile(parsed(), options);
  ASSERT_FALSE(package.ok());
  EXPECT_EQ(package.status().code(), Code::Internal);
}

TEST(BrokenGroup, NothingJoinsASeparateNode) {
  const std::unique_ptr<graph::Graph> g = parsed();
  for (const passes::Pass& p : passes::pipeline()) ASSERT_TRUE(passes::run(p, *g).ok()) << p.name;
  const graph::Node* relu = nullptr;
  for (const auto& n : g->nodes()) relu = n->name == "relu" ? n.get() : relu;
  ASSERT_NE(relu, nullptr);
  const auto fusion = lower::fuse(*g, {.separate = {{relu, "please report it"}}});
  ASSERT_TRUE(fusion.ok()) << fusion.status().message();
  for (const lower::Group& group : fusion->groups) EXPECT_EQ(group.nodes.size(), 1U);
  ASSERT_EQ(fusion->unfused.size(), 2U);
  EXPECT_NE(fusion->unfused[0].reason.find("report"), std::string::npos);
}

/// The kernel is refused only when it is emitted, with all others.
TEST(BrokenGroup, FallsApartWhenItCannotBeEmitted) {
  CompileOptions options;
  options.targets = {"vulkan-cpu-sg8"};
  options.log = [](const std::string&) {};
  options.hooks = test::kernel_hook([](const lower::Group& group, lower::Lowered& lowered) {
    if (group.nodes.size() > 1) lowered.launches[0].kernel.workgroup[0] = 2048;
  });
  CompileReport report;
  auto apart = compile(parsed(), options, &report);
  ASSERT_TRUE(apart.ok()) << apart.status().message();
  EXPECT_EQ(launches(*apart), 3U);
  ASSERT_EQ(report.broken.size(), 1U);
  EXPECT_EQ(report.broken[0].kernel, "fused_matmul_relu_tanh");
}

}  // namespace
}  // namespace reprise
