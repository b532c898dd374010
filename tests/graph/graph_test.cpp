// The graph container: names, nodes, uses, copies.
#include "codegen/graph/graph.h"

#include <gtest/gtest.h>

namespace reprise::graph {
namespace {

NodeSpec make(const std::string& op, std::vector<ValueId> in, std::vector<ValueId> out) {
  NodeSpec n;
  n.op = op;
  n.inputs = std::move(in);
  n.outputs = std::move(out);
  return n;
}

std::vector<std::string> ops_of(const Graph& g) {
  std::vector<std::string> out;
  for (const auto& n : g.nodes()) out.push_back(n->op);
  return out;
}

TEST(Graph, NamesAreMadeUnique) {
  Graph g;
  EXPECT_EQ(g.value(g.add_unknown("x")).name, "x");
  EXPECT_EQ(g.value(g.add_unknown("x")).name, "x_1");
  EXPECT_EQ(g.value(g.add_unknown("x_2")).name, "x_2");
  EXPECT_EQ(g.value(g.add_unknown("x")).name, "x_3");
  EXPECT_EQ(g.unique_name("x_1"), "x_1_1");
  EXPECT_EQ(g.value(g.add_unknown("")).name, "v");
}

TEST(Graph, ManyEqualNamesAndSymbolsTakeLinearTime) {
  // 10^10 steps, were it quadratic: no machine does that within the test's time limit.
  Graph g;
  constexpr int kMany = 100000;
  for (int i = 0; i < kMany; ++i) {
    g.add_unknown("x");
    g.add_symbol({}, {});
  }
  EXPECT_EQ(g.values().back().name, "x_99999");
  EXPECT_EQ(g.symbols.back().name, "s_99999");
}

TEST(Graph, SymbolNamesAreIdentifiers) {
  Graph g;
  const auto name = [&](const std::string& raw) {
    Symbol s;
    s.name = raw;
    return g.symbols[static_cast<size_t>(g.add_symbol(s, {}))].name;
  };
  EXPECT_EQ(name("batch"), "batch");
  EXPECT_EQ(name("past + 1"), "past___1");
  EXPECT_EQ(name("p2o.Dynamic.0"), "p2o_Dynamic_0");
  EXPECT_EQ(name("0"), "s0");
  EXPECT_EQ(name("min"), "min_");
  EXPECT_EQ(name("batch"), "batch_1");
  for (const Symbol& s : g.symbols) EXPECT_TRUE(Expr::parse(s.name, g.symbols).ok()) << s.name;
}

TEST(Graph, NodesGoBeforeOthersAndSetProducers) {
  Graph g;
  const ValueId x = g.add_value("x", DType::F32, {4});
  const ValueId y = g.add_value("y", DType::F32, {4});
  const ValueId z = g.add_value("z", DType::F32, {4});
  g.inputs = {x};
  Node* second = g.add_node(make("Neg", {y}, {z}));
  Node* first = g.add_node(make("Abs", {x}, {y}), second);
  EXPECT_EQ(ops_of(g), (std::vector<std::string>{"Abs", "Neg"}));
  EXPECT_EQ(g.value(y).producer, first);
  EXPECT_EQ(first->name, "Abs(y)");
  EXPECT_EQ(first->origins, std::vector<std::string>{"Abs(y)"});
  g.erase_node(second);
  EXPECT_EQ(g.value(z).producer, nullptr);
  EXPECT_EQ(ops_of(g), std::vector<std::string>{"Abs"});
}

TEST(Graph, ReplacedUsesKeepTheOutputsName) {
  Graph g;
  const ValueId x = g.add_value("x", DType::F32, {4});
  const ValueId y = g.add_value("y", DType::F32, {4});
  g.inputs = {x};
  Node* n = g.add_node(make("Identity", {x}, {y}));
  Node* user = g.add_node(make("Add", {y, y}, {g.add_value("z", DType::F32, {4})}));
  g.set_outputs({y});
  g.output_names = {"y"};
  EXPECT_EQ(g.users(y), (std::vector<Node*>{user, user}));
  g.replace_uses(y, x);
  g.erase_node(n);
  EXPECT_EQ(user->inputs, (std::vector<ValueId>{x, x}));
  EXPECT_TRUE(g.is_output(x));
  EXPECT_FALSE(g.is_output(y));
  EXPECT_EQ(g.output_name(0), "y");
}

TEST(Graph, ACloneIsDeepAndPrintsTheSame) {
  auto g = parse(R"(graph g
input c: bool[], x: float32[n]
y: float32[n] = If(c, x) {
  then_branch { capture a: float32[n]
                b = Neg(a)
                output b }
  else_branch { capture a: float32[n]
                output a }
}
output y)");
  ASSERT_TRUE(g.ok()) << g.status().message();
  const std::string before = print(**g);
  auto copy = (*g)->clone();
  EXPECT_EQ(print(*copy), before);
  copy->nodes().front()->subgraphs[0].second->nodes().front()->op = "Abs";
  copy->value(copy->outputs[0]).name = "other";
  EXPECT_EQ(print(**g), before);
  EXPECT_EQ(copy->value(copy->outputs[0]).producer, copy->nodes().front().get());
  EXPECT_TRUE(verify(**g, false).ok());
}

}  // namespace
}  // namespace reprise::graph
