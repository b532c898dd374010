#include "codegen/graph/size_hint.h"

#include <gtest/gtest.h>

#include "codegen/graph/text.h"

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

}  // namespace
}  // namespace reprise::graph
