// The users that a graph keeps of its values, against those that its lists say.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "codegen/graph/graph.h"

namespace reprise::graph {
namespace {

NodeSpec node(std::vector<ValueId> in, std::vector<ValueId> out) {
  NodeSpec n;
  n.op = "Add";
  n.inputs = std::move(in);
  n.outputs = std::move(out);
  return n;
}

/// Checks every value, and that nodes are ordered as they are listed.
void expect_exact(const Graph& g) {
  IdVector<ValueId, std::vector<Node*>> users(g.values().size());
  const Node* last = nullptr;
  for (const auto& n : g.nodes()) {
    EXPECT_TRUE(last == nullptr || (Graph::precedes(last, n.get()) && last != n.get()));
    last = n.get();
    for (const ValueId v : n->inputs) {
      if (v != kNone) users[v].push_back(n.get());
    }
    for (const ValueId v : n->outputs) {
      if (v == kNone) continue;
      EXPECT_EQ(g.value(v).producer, n.get());
    }
  }
  for (const ValueId v : users.ids()) {
    EXPECT_EQ(g.users(v), users[v]);
    const auto outputs = std::count(g.outputs.begin(), g.outputs.end(), v);
    EXPECT_EQ(g.is_output(v), outputs != 0);
    EXPECT_EQ(g.use_count(v), users[v].size() + static_cast<size_t>(outputs));
  }
}

/// Edits a graph at random, without regard to what it computes.
class Editor {
 public:
  explicit Editor(uint32_t seed) : random_(seed) {
    for (int i = 0; i < 6; ++i) g.add_unknown("x");
  }

  void edit() {
    switch (below(8)) {
      case 0:
        if (Node* n = some_node()) erase(n);
        return;
      case 1:
        if (Node* n = some_node(); n != nullptr && !n->inputs.empty())
          g.set_input(*n, below(n->inputs.size()), some_value());
        return;
      case 2:
        if (Node* n = some_node()) g.set_inputs(*n, some_values());
        return;
      case 3:
        g.replace_uses(some_result(), some_result());
        return;
      case 4:
        g.set_outputs({some_result(), some_result()});
        return;
      case 5:
        if (Node* n = some_node()) g.set_output(*n, 0, g.add_unknown("moved"));
        return;
      default:
        g.add_node(node(some_values(), {g.add_unknown("v")}), some_node());
    }
  }

  Graph g;

 private:
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  ValueId some_result() { return ValueId(below(g.values().size())); }
  ValueId some_value() { return below(8) == 0 ? kNone : some_result(); }
  std::vector<ValueId> some_values() {
    std::vector<ValueId> out(below(4));
    for (ValueId& v : out) v = below(3) == 0 && !out.empty() ? out[0] : some_value();
    return out;
  }
  Node* some_node() {
    if (g.nodes().empty()) return nullptr;
    return std::next(g.nodes().begin(), static_cast<std::ptrdiff_t>(below(g.nodes().size())))
        ->get();
  }
  void erase(Node* n) {
    for (const ValueId v : n->outputs) g.replace_uses(v, ValueId(0));
    g.erase_node(n);
  }

  std::mt19937 random_;
};

TEST(Uses, StayExactUnderRandomEdits) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    Editor editor(seed);
    for (int i = 0; i < 150; ++i) {
      editor.edit();
      expect_exact(editor.g);
      if (testing::Test::HasFailure()) return;
    }
    expect_exact(*editor.g.clone());
  }
}

TEST(Uses, AreInTheOrderOfTheNodesWhereverTheseAreInserted) {
  Graph g;
  const ValueId x = g.add_unknown("x");
  Node* last = g.add_node(node({x}, {g.add_unknown("y")}));
  // More than there are numbers between two neighbours, at either end of the gap.
  Node* first = last;
  for (int i = 0; i < 200; ++i) {
    g.add_node(node({x, x}, {g.add_unknown("v")}), last);
    first = g.add_node(node({x}, {g.add_unknown("u")}), first);
  }
  expect_exact(g);
  EXPECT_EQ(g.users(x).size(), 601U);
}

TEST(Uses, OfManyNodesTakeLinearTime) {
  // 10^10 steps, were it quadratic: no machine does that within the test's time limit.
  Graph g;
  constexpr int kMany = 100000;
  ValueId v = g.add_unknown("x");
  g.inputs = {v};
  for (int i = 0; i < kMany; ++i) {
    const ValueId next = g.add_unknown("v");
    g.add_node(node({v}, {next}));
    v = next;
  }
  while (g.nodes().size() > 1) {
    Node* n = g.nodes().front().get();
    g.replace_uses(n->outputs[0], n->inputs[0]);
    g.erase_node(n);
  }
  EXPECT_EQ(g.users(g.inputs[0]).size(), 1U);
}

}  // namespace
}  // namespace reprise::graph
