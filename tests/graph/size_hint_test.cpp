#include "codegen/graph/size_hint.h"

#include <gtest/gtest.h>

#include "codegen/graph/text/text.h"

namespace reprise::graph {
namespace {

double hint(const std::string& dims) {
  auto g = parse("graph sizes\ninput x: float32[" + dims + "]\nz = Relu(x) @14\noutput z\n");
  EXPECT_TRUE(g.ok()) << g.status().message();
  return g.ok() ? count_hint(**g, (*g)->value((*g)->inputs[0]).shape) : -1;
}

TEST(SizeHint, IsThatOfAUsualRun) {
  EXPECT_EQ(hint("2,3"), 6);
  EXPECT_EQ(hint("batch,sequence"), 64);
  EXPECT_EQ(hint("length"), 64);
  EXPECT_EQ(hint("batch,3,height,width"), 3 * 256 * 256);
  EXPECT_EQ(hint("5,sequence"), 5 * 64);
}

/// Sizes of 0 have costs of 0, or infinite ones, among which no schedule is the cheapest.
TEST(SizeHint, IsAtLeastOne) {
  auto g = parse("graph sizes\ninput x: float32[n]\nz = Relu(x) @14\noutput z\n");
  ASSERT_TRUE(g.ok()) << g.status().message();
  const Expr n = (*g)->value((*g)->inputs[0]).shape[0];
  EXPECT_EQ(count_hint(**g, {n - 60}), 4);
  EXPECT_EQ(count_hint(**g, {n - 64, 3}), 3);
  EXPECT_EQ(count_hint(**g, {n - 100, 3}), 3);
  EXPECT_EQ(hint("0,4"), 4);
}

}  // namespace
}  // namespace reprise::graph
