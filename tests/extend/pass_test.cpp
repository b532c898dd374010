// A pass with an option, added in this one file. Rows in codegen/passes/pipeline.cpp are the same,
// but that their place in the table is their order.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/compile/compiler.h"
#include "codegen/ops/row/op.h"
#include "codegen/passes/pass.h"

namespace reprise {
namespace {

// --- The pass ------------------------------------------------------------------------------------

/// Takes every so many-th Neg out of the graph, for want of anything more useful.
Status drop_negations(passes::PassContext& context) {
  graph::Graph& g = context.graph();
  const int64_t every = std::max<int64_t>(context.option("every"), 1);
  int64_t seen = 0;
  for (auto it = g.nodes().begin(); it != g.nodes().end();) {
    graph::Node* n = (it++)->get();
    if (!ops::is_core(*n, kernel::ScalarOp::Neg) || ++seen % every != 0) continue;
    g.replace_uses(n->outputs[0], n->inputs[0]);
    g.erase_node(n);
  }
  return {};
}

constexpr passes::PassOption kOptions[] = {{"every", 1, "takes one of so many out"}};

constexpr passes::Pass kPass{.name = "drop-negations",
                             .run = drop_negations,
                             .what = "take negations out",
                             .options = kOptions,
                             .after = "decompose"};

// --- Its test ------------------------------------------------------------------------------------

/// The number of Neg left after the pass, or -1 where it did not run.
int64_t negations_after(CompileOptions options) {
  auto g = graph::parse(
      "graph g\ninput x: float32[8]\na = Neg(x)\nb = Exp(a)\nc = Neg(b)\nd = Exp(c)\noutput d\n");
  EXPECT_TRUE(g.ok()) << g.status().message();
  int64_t left = -1;
  options.added_passes = {kPass};
  options.on_pass = [&](const std::string& pass, const graph::Graph& after) {
    if (pass != kPass.name) return;
    left = std::ranges::count_if(
        after.nodes(), [](const auto& n) { return ops::is_core(*n, kernel::ScalarOp::Neg); });
  };
  EXPECT_TRUE(compile(std::move(*g), options).ok());
  return left;
}

TEST(AddedPass, RunsInItsPlaceWithItsOption) {
  EXPECT_EQ(negations_after({}), 0);
  CompileOptions options;
  options.pass_options["drop-negations.every"] = 2;
  EXPECT_EQ(negations_after(options), 1);
}

TEST(AddedPass, IsSwitchedOffByName) {
  CompileOptions options;
  options.disabled_passes = {"drop-negations"};
  EXPECT_EQ(negations_after(options), -1);
}

Status refused(CompileOptions options) {
  auto g = graph::parse("graph g\ninput x: float32[8]\ny = Neg(x)\noutput y\n");
  return compile(std::move(*g), options).status();
}

TEST(AddedPass, IsRefusedWhereItDoesNotFit) {
  CompileOptions options;
  options.pass_options["drop-negations.every"] = 2;
  EXPECT_EQ(refused(options).code(), Code::Usage) << "there is no such pass";
  options.added_passes = {kPass};
  EXPECT_TRUE(refused(options).ok());
  options.pass_options["drop-negations.most"] = 2;
  EXPECT_EQ(refused(options).code(), Code::Usage) << "there is no such option";
  options.pass_options.clear();
  options.added_passes[0].after = "nothing";
  EXPECT_EQ(refused(options).code(), Code::Usage) << "there is no such place";
  options.added_passes[0] = kPass;
  options.added_passes[0].name = "dce";
  EXPECT_EQ(refused(options).code(), Code::Usage) << "the name is taken";
}

TEST(AddedPass, RunsAfterThoseAddedBefore) {
  auto g = graph::parse("graph g\ninput x: float32[8]\ny = Exp(x)\noutput y\n");
  ASSERT_TRUE(g.ok()) << g.status().message();
  CompileOptions options;
  options.added_passes = {kPass, kPass};
  EXPECT_EQ(refused(options).code(), Code::Usage) << "the name is given twice";
  options.added_passes[1].name = "drop-others";
  std::vector<std::string> order;
  options.on_pass = [&](const std::string& pass, const graph::Graph&) {
    if (pass.starts_with("drop-")) order.push_back(pass);
  };
  ASSERT_TRUE(compile(std::move(*g), options).ok());
  EXPECT_EQ(order, (std::vector<std::string>{"drop-negations", "drop-others"}));
}

TEST(Options, OfTheTableAreTakenByName) {
  CompileOptions options;
  options.precision = DType::F16;
  options.pass_options["autocast.min-elements"] = 1;
  EXPECT_TRUE(refused(options).ok());
  options.pass_options["autocast.precision"] = 1;
  EXPECT_EQ(refused(options).code(), Code::Usage) << "CompileOptions::precision sets it";
  options.pass_options.clear();
  options.disabled_passes = {"autocast"};
  EXPECT_EQ(refused(options).code(), Code::Usage) << "its option decides";
}

}  // namespace
}  // namespace reprise
