// Which runs of random operators have the same numbers.
#include <gtest/gtest.h>

#include "codegen/compile/compiler.h"
#include "codegen/graph/text/text.h"
#include "runtime/session/session.h"
#include "tests/support/tensors.h"

namespace reprise::test {
namespace {

std::unique_ptr<Session> session_of(const std::string& text, uint64_t seed) {
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.status().message();
  CompileOptions options;
  options.targets = {};
  auto package = compile((*g)->clone(), options);
  EXPECT_TRUE(package.ok()) << package.status().message();
  SessionOptions session;
  session.seed = seed;
  auto out =
      Session::create(std::make_shared<package::Package>(*std::move(package)), nullptr, session);
  EXPECT_TRUE(out.ok()) << out.status().message();
  return *std::move(out);
}

std::vector<double> numbers_of(Session& session, size_t output) {
  const auto results = session.run({});
  EXPECT_TRUE(results.ok()) << results.status().message();
  std::vector<double> out;
  for (int64_t i = 0; i < (*results)[output].count(); ++i)
    out.push_back(test::number((*results)[output], i));
  return out;
}

TEST(RandomRuns, SeedsOfSessionsAndNodes) {
  const std::string text =
      "x = RandomNormal<shape=[8]>() @1\n"
      "y = RandomNormal<shape=[8]>() @1\n"
      "z = RandomNormal<seed=3.0, shape=[8]>() @1\n"
      "output x, y, z\n";
  const auto a = session_of(text, 1);
  const auto b = session_of(text, 1);
  const auto c = session_of(text, 2);
  const auto first = numbers_of(*a, 0);
  EXPECT_EQ(first, numbers_of(*b, 0));
  EXPECT_NE(first, numbers_of(*c, 0));
  const auto second = numbers_of(*a, 0);
  EXPECT_NE(first, second) << "two runs have the same numbers";
  EXPECT_EQ(second, numbers_of(*b, 0));
  EXPECT_NE(numbers_of(*a, 0), numbers_of(*b, 1)) << "two nodes have the same numbers";
  EXPECT_EQ(numbers_of(*a, 2), numbers_of(*a, 2));
  EXPECT_EQ(numbers_of(*a, 2), numbers_of(*c, 2));
}

}  // namespace
}  // namespace reprise::test
