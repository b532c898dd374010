// Chains of operators that read their operands at other indices: the code of a kernel grows with
// the product of the reads, and conditions nest.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/compile/compiler.h"
#include "codegen/graph/text/text.h"
#include "tests/lower/model_on_variants.h"
#include "tests/support/random_values.h"

namespace reprise {
namespace {

std::string v(const std::string& prefix, size_t i) {
  return prefix + std::to_string(i);
}

/// Each link appends one row to the last. A kernel of all of them nests a condition for each.
std::string concats(size_t links) {
  std::string text = "graph concats\ninput x0: float32[1,8]\ninput y: float32[1,8]\n";
  for (size_t i = 0; i < links; ++i)
    text += v("x", i + 1) + " = Concat<axis=0>(" + v("x", i) + ", y) @13\n";
  return text + "output " + v("x", links) + "\n";
}

/// Each link rolls the last by one element, as Swin's windows. A kernel of all of them has twice as
/// much code with each.
std::string rolls(size_t links) {
  std::string text =
      "graph rolls\ninput x0: float32[64]\nconst zero: int64[1]{0}\nconst one: int64[1]{1}\n"
      "const end: int64[1]{64}\n";
  for (size_t i = 0; i < links; ++i) {
    text += v("h", i) + " = Slice(" + v("x", i) + ", one, end) @13\n";
    text += v("t", i) + " = Slice(" + v("x", i) + ", zero, one) @13\n";
    text += v("x", i + 1) + " = Concat<axis=0>(" + v("h", i) + ", " + v("t", i) + ") @13\n";
  }
  return text + "output " + v("x", links) + "\n";
}

/// A matrix in parts of some of its columns, which are joined again in another order and as rows.
std::string parts(size_t count, size_t columns) {
  std::string names, joined;
  for (size_t i = 0; i < count; ++i) {
    names += (i == 0 ? "" : ", ") + v("s", i);
    joined += (i == 0 ? "" : ", ") + v("s", (7 * i) % count);
  }
  return "graph parts\ninput x: float32[32," + std::to_string(count * columns) + "]\n(" + names +
         ") = Split<axis=1, num_outputs=" + std::to_string(count) +
         ">(x) @18\ny = Concat<axis=0>(" + joined + ") @13\noutput y\n";
}

/// The models only move elements, so devices are exact.
class CodeSize : public test::ModelOnVariants, public testing::Test {
 protected:
  /// Returns the words of SPIR-V for all variants.
  size_t run_everywhere(const std::string& text) {
    auto g = graph::parse(text);
    EXPECT_TRUE(g.ok()) << g.status().message();
    if (!g.ok()) return 0;
    std::vector<HostTensor> inputs;
    for (const graph::ValueId in : (*g)->inputs) {
      const graph::Value& value = (*g)->value(in);
      inputs.push_back(
          test::random_values(value.dtype, static_dims(value.shape), {}, 7, value.name));
    }
    size_t words = 0;
    CompileOptions options;
    options.on_kernel = [&](const std::string&, const std::string&, const std::string&,
                            std::span<const uint32_t> spirv,
                            const std::string&) { words += spirv.size(); };
    CompileReport report;
    const Status compiled = compile(std::move(*g), options, &report).status();
    EXPECT_TRUE(compiled.ok()) << compiled.message();
    EXPECT_TRUE(report.broken.empty());
    fullgraph_ = true;
    load(text, std::move(inputs));
    if (!HasFatalFailure()) run_on_devices();
    return words;
  }

  void compare(size_t output, std::span<const std::byte> actual, const std::string& what) override {
    EXPECT_TRUE(std::ranges::equal(actual, expected_[output].bytes())) << what;
  }
};

TEST_F(CodeSize, ConditionsDoNotNestTooDeeply) {
  for (const size_t links : {20, 79, 150}) {
    SCOPED_TRACE(links);
    EXPECT_GT(run_everywhere(concats(links)), 0U);
  }
}

TEST_F(CodeSize, ChainsDoNotDoubleTheCode) {
  const size_t eight = run_everywhere(rolls(8));
  const size_t thirty_two = run_everywhere(rolls(32));
  EXPECT_GT(eight, 0U);
  EXPECT_LT(thirty_two, 8 * eight);
}

/// An invocation computes several elements. Its code may not have all conditions of a Concat for
/// each of them.
TEST_F(CodeSize, ConcatsAreNotUnrolled) {
  const size_t eight = run_everywhere(parts(8, 521));
  const size_t sixty_four = run_everywhere(parts(64, 65));
  EXPECT_GT(eight, 0U);
  EXPECT_LT(sixty_four, 4 * eight);
}

}  // namespace
}  // namespace reprise
