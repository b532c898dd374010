// Fusion's decisions as a list: printed, cut short, replayed.
#include <gtest/gtest.h>

#include "codegen/compile/compiler.h"
#include "codegen/graph/text/text.h"
#include "codegen/lower/fuse/fuse.h"

namespace reprise::lower {
namespace {

constexpr const char* kModel =
    "graph g\ninput x: float32[4,8]\ninput w: float32[8,8]\nm = MatMul(x, w) @13\n"
    "r = Relu(m) @14\ns = ReduceSum<axes=[1],keepdims=1>(r) @11\nt = Tanh(x) @13\n"
    "u = Neg(t) @13\nv = Exp(t) @13\noutput s, u, v\n";

struct Compiled {
  std::vector<FusionDecision> decisions;
  size_t launches = 0;
};

Compiled compiled(CompileOptions options) {
  auto g = graph::parse(kModel);
  EXPECT_TRUE(g.ok()) << g.status().message();
  options.targets = {"vulkan-baseline"};
  CompileReport report;
  const auto package = compile(std::move(*g), options, &report);
  EXPECT_TRUE(package.ok()) << package.status().message();
  return {report.decisions, report.groups.size()};
}

TEST(FusionDecisions, AreListed) {
  std::string list;
  for (const FusionDecision& d : compiled({}).decisions) list += d.str() + "\n";
  EXPECT_EQ(list,
            "region: r joins m\n"
            "merge: the kernel of v also computes u\n"
            "inline: t is computed where u reads it\n");
}

TEST(FusionDecisions, AreCutShort) {
  const Compiled all = compiled({});
  size_t launches = all.launches;
  for (size_t limit = all.decisions.size(); limit-- > 0;) {
    CompileOptions options;
    options.pass_options["fusion.limit"] = static_cast<int64_t>(limit);
    const Compiled some = compiled(options);
    EXPECT_EQ(some.decisions.size(), limit);
    EXPECT_TRUE(std::equal(some.decisions.begin(), some.decisions.end(), all.decisions.begin()));
    EXPECT_GE(some.launches, launches);
    launches = some.launches;
  }
  CompileOptions unfused;
  unfused.disabled_passes = {"fusion"};
  EXPECT_EQ(launches, compiled(unfused).launches);
}

TEST(FusionDecisions, AreReplayed) {
  const Compiled all = compiled({});
  CompileOptions options;
  options.fusion_decisions = all.decisions;
  EXPECT_EQ(compiled(options).decisions, all.decisions);
  options.fusion_decisions->erase(options.fusion_decisions->begin());
  EXPECT_EQ(compiled(options).decisions, *options.fusion_decisions);
}

}  // namespace
}  // namespace reprise::lower
