// How the importer treats loops whose values change their rank.
#include <gtest/gtest.h>

#include "tests/onnx/proto.h"

namespace reprise::onnx::test {
namespace {

/// A loop that passes on two numbers, of which an iteration gives the first one an axis. `count` is
/// the number of iterations. `op` gives the next second number: it multiplies it by the first
/// (Mul), adds one to it (Add), or gives it one more axis in each iteration (Unsqueeze).
Model loop(const std::string& count, const std::string& op) {
  Model m;
  m.input("n", kInt64, {}).input("a", kFloat, {}).input("b", kFloat, {}).output("y").output("z");
  add_int64(m.graph(), "three", {3});
  wire::Graph* g =
      attribute(m.node("Loop", {count, "", "a", "b"}, {"y", "z"}, "loop"), "body", 5)->mutable_g();
  for (const char* name : {"i", "going", "v", "w"}) g->add_input()->set_name(name);
  for (const char* name : {"going", "next", "other"}) g->add_output()->set_name(name);
  add_float(*g, "one", {1});
  add_int64(*g, "axis", {0});
  fill(g->add_node(), "Add", {"v", "one"}, {"next"});
  const char* with = op == "Mul" ? "v" : op == "Unsqueeze" ? "axis" : "one";
  fill(g->add_node(), op, {"w", with}, {"other"});
  return m;
}

TEST(Loops, InitialValuesOfOneElementGetTheRankOfLaterOnes) {
  const std::string graph = imported(loop("three", "Add"));
  EXPECT_NE(graph.find("Unsqueeze(a, "), std::string::npos) << graph;
  EXPECT_NE(graph.find("loop/2/next: float32[1] ="), std::string::npos) << graph;
  EXPECT_NE(graph.find("loop/2/other: float32[1] ="), std::string::npos) << graph;
}

TEST(Loops, RanksThatAnIterationMayNotChange) {
  EXPECT_EQ(imported(loop("n", "Add")),
            "node 'loop' (Loop): value 'a' is float32[] at first, but an iteration returns "
            "float32[1] for it; the type and the rank must stay the same");
}

TEST(Loops, ResultsWhoseRankIsAnotherAfterTheFirstIteration) {
  EXPECT_EQ(
      imported(loop("three", "Mul")),
      "node 'loop' (Loop): the rank of 'other' in the first iteration is 0, and in the others "
      "1; give the initial values the rank that iterations return");
}

TEST(Loops, RanksThatGrowInEachIteration) {
  EXPECT_EQ(
      imported(loop("three", "Unsqueeze")),
      "node 'loop' (Loop): the rank of 'other' in the first iteration is 1, and in the others "
      "2; give the initial values the rank that iterations return");
}

TEST(Loops, InitialValuesThatStandForHugeOnes) {
  Model m;
  m.input("a", kFloat, {}).input("x", kFloat, {1 << 15, 1}).input("w", kFloat, {1, 1 << 15});
  m.output("y");
  wire::Graph* g = attribute(m.node("Loop", {"", "", "a"}, {"y"}, "loop"), "body", 5)->mutable_g();
  for (const char* name : {"i", "going", "v"}) g->add_input()->set_name(name);
  for (const char* name : {"stop", "next"}) g->add_output()->set_name(name);
  fill(g->add_node(), "Not", {"going"}, {"stop"});
  fill(g->add_node(), "Mul", {"x", "w"}, {"next"});
  const std::string graph = imported(m);
  EXPECT_NE(graph.find("const a/zeros: float32[0,0]"), std::string::npos) << graph;
}

}  // namespace
}  // namespace reprise::onnx::test
