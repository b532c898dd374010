// Names of operators are one pointer each, whichever thread makes them.
#include "codegen/graph/op_name.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace reprise::graph {
namespace {

TEST(OpName, IsEqualWhereItsTextIs) {
  const OpName a("Conv");
  EXPECT_EQ(a, OpName(std::string("Conv")));
  EXPECT_NE(a, OpName("MatMul"));
  EXPECT_EQ(a, "Conv");
  EXPECT_NE(a, "");
  EXPECT_EQ(&a.str(), &OpName("Conv").str());
  EXPECT_EQ("the operator " + a + "!", "the operator Conv!");
}

TEST(OpName, IsEmptyAtFirst) {
  EXPECT_TRUE(OpName().empty());
  EXPECT_EQ(OpName(), OpName(""));
  EXPECT_EQ(OpName().str(), "");
  EXPECT_EQ(OpName().number(), 0U);
}

TEST(OpName, IsOneForAllThreads) {
  constexpr int kNames = 200;
  const auto make = [](std::vector<OpName>& out) {
    for (int i = 0; i < kNames; ++i) out.emplace_back("Threads" + std::to_string(i));
  };
  std::vector<std::vector<OpName>> made(4);
  std::vector<std::thread> threads;
  for (auto& out : made) threads.emplace_back(make, std::ref(out));
  for (std::thread& t : threads) t.join();
  std::set<size_t> numbers;
  for (size_t i = 0; i < kNames; ++i) {
    for (const auto& out : made) EXPECT_EQ(out[i], made[0][i]);
    EXPECT_EQ(made[0][i], "Threads" + std::to_string(i));
    numbers.insert(made[0][i].number());
  }
  EXPECT_EQ(numbers.size(), size_t{kNames});
}

}  // namespace
}  // namespace reprise::graph
