// Nodes with bodies are exported with them: what reads the file sees the same graph.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/onnx/exporter.h"
#include "tests/onnx/proto.h"

namespace reprise::onnx::test {
namespace {

Result<std::string> exported(const graph::Graph& g) {
  Part part;
  for (const auto& n : g.nodes()) part.nodes.push_back(n.get());
  part.inputs = g.inputs;
  part.outputs = g.outputs;
  return export_part(g, part);
}

/// A choice in a loop. The branches capture a value of the loop, one of the model, and constants;
/// one returns what it captures, and one a constant.
Model nested() {
  Model m;
  m.input("n", kInt64, {}).input("x", kFloat, {4}).output("y").output("all");
  add_float(m.graph(), "limit", {3});
  wire::Graph* body =
      attribute(m.node("Loop", {"n", "", "x"}, {"y", "all"}, "loop"), "body", 5)->mutable_g();
  for (const char* name : {"i", "going", "v"}) body->add_input()->set_name(name);
  for (const char* name : {"going", "next", "x"}) body->add_output()->set_name(name);
  fill(body->add_node(), "ReduceSum", {"v"}, {"s"});
  fill(body->add_node(), "Less", {"s", "limit"}, {"small"});
  wire::Node* choice = fill(body->add_node(), "If", {"small"}, {"next"}, "choice");
  wire::Graph* then = attribute(choice, "then_branch", 5)->mutable_g();
  then->add_output()->set_name("v");
  wire::Graph* other = attribute(choice, "else_branch", 5)->mutable_g();
  add_float(*other, "s", {1, 2, 3, 4});  // hides the sum of the loop
  other->add_output()->set_name("s");
  return m;
}

TEST(ExporterBodies, ComeWithTheirNodes) {
  const auto g = import(nested().bytes());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const auto bytes = exported(**g);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  const auto again = import(*bytes);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_TRUE(graph::verify(**again, false).ok());
  ASSERT_EQ((*again)->nodes().size(), 1u);
  const graph::Node& loop = *(*again)->nodes().front();
  ASSERT_EQ(loop.subgraphs.size(), 1u);
  const graph::Graph& body = *loop.subgraphs[0].second;
  const auto choice =
      std::ranges::find_if(body.nodes(), [](const auto& n) { return n->op == "If"; });
  ASSERT_NE(choice, body.nodes().end());
  for (const auto& [label, branch] : (*choice)->subgraphs) {
    ASSERT_EQ(branch->nodes().size(), 1u) << label;
    EXPECT_EQ(branch->nodes().front()->op, "Identity") << label << " passes a value on";
  }
  const auto twice = exported(**again);
  EXPECT_TRUE(twice.ok()) << twice.status().message();
}

}  // namespace
}  // namespace reprise::onnx::test
