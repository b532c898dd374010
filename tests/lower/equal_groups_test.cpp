// Equal groups are lowered once: what makes groups equal, and what comes of the second one.
#include <gtest/gtest.h>

#include "codegen/compile/targets.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/lower/group/group_key.h"
#include "codegen/lower/lower_once.h"

namespace reprise::lower {
namespace {

struct EqualCase {
  const char* what;
  const char* first;  // two nodes, of x, y: float32[4,6] and w: float32[6,6]
  const char* second;
  bool equal;
};

constexpr EqualCase kCases[] = {
    {"values of other names", "a = Neg(x)", "b = Neg(y)", true},
    {"operands exchanged", "a = Sub(x, y)", "b = Sub(y, x)", true},
    {"one value twice", "a = Sub(x, y)", "b = Sub(x, x)", false},
    {"operators", "a = Neg(x)", "b = Abs(x)", false},
    {"shapes", "a = Neg(x)", "b = Neg(w)", false},
    {"dtypes", "a = Neg(x)", "b = Neg(i)", false},
    {"scalars", "a = Mul(x, two)", "b = Mul(x, three)", false},
    {"equal scalars", "a = Mul(x, two)", "b = Mul(y, also_two)", true},
    {"weights", "a = MatMul(x, p)", "b = MatMul(y, q)", true},
    {"a weight and an input", "a = MatMul(x, p)", "b = MatMul(y, w)", false},
    {"attributes", "a = Transpose<perm=[1, 0]>(x)", "b = Transpose<perm=[0, 1]>(x)", false},
    {"sizes of symbols", "a = Neg(m)", "b = Neg(n)", false},
};

std::unique_ptr<graph::Graph> graph_of(const EqualCase& c) {
  const std::string text = std::string("graph g\n") +
                           "input x: float32[4,6]\ninput y: float32[4,6]\n"
                           "input w: float32[6,6]\ninput i: int32[4,6]\n"
                           "input m: float32[r,2]\ninput n: float32[s,2]\n"
                           "const two: float32[]{2}\nconst also_two: float32[]{2}\n"
                           "const three: float32[]{3}\n"
                           "const p: float32[6,2]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\n"
                           "const q: float32[6,2]{0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13}\n" +
                           c.first + "\n" + c.second + "\noutput a, b\n";
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.status().message() << "\n" << text;
  return g.ok() ? std::move(*g) : nullptr;
}

TEST(EqualGroups, KeysSayWhatLoweringReads) {
  for (const EqualCase& c : kCases) {
    const auto g = graph_of(c);
    ASSERT_NE(g, nullptr);
    const auto fusion = fuse(*g, {.enabled = false});
    ASSERT_TRUE(fusion.ok()) << fusion.status().message();
    ASSERT_EQ(fusion->groups.size(), 2U) << c.what;
    const GroupKey a = key_of(*g, fusion->groups[0]), b = key_of(*g, fusion->groups[1]);
    EXPECT_EQ(a.bytes == b.bytes, c.equal) << c.what;
    EXPECT_NE(a.values, b.values) << c.what;
  }
}

void expect_equal(const graph::Graph& g, const LoweredLaunch& a, const LoweredLaunch& b,
                  const std::string& what) {
  EXPECT_EQ(kernel::print(a.kernel), kernel::print(b.kernel)) << what;
  ASSERT_EQ(a.buffers.size(), b.buffers.size()) << what;
  for (size_t i = 0; i < a.buffers.size(); ++i) {
    ASSERT_EQ(a.buffers[i].value == graph::kNone, b.buffers[i].value == graph::kNone) << what;
    if (a.buffers[i].value == graph::kNone) continue;
    EXPECT_EQ(g.value(a.buffers[i].value).name, g.value(b.buffers[i].value).name) << what;
  }
}

/// Groups that are lowered one after the other get what each gets by itself.
void expect_own_values(const graph::Graph& g, bool fused, const std::string& what) {
  const auto fusion = fuse(g, {.enabled = fused});
  ASSERT_TRUE(fusion.ok()) << fusion.status().message();
  LowerOnce once(g, true);  // for all targets: what one is given may come from another
  for (const Target& target : vulkan_targets()) {
    for (const Group& group : fusion->groups) {
      const auto alone = lower(g, group, target);
      const auto shared = once.lower(group, target);
      ASSERT_TRUE(alone.ok() && shared.ok()) << what;
      ASSERT_EQ(alone->launches.size(), shared->launches.size()) << what;
      for (size_t l = 0; l < alone->launches.size(); ++l)
        expect_equal(g, alone->launches[l], shared->launches[l], what);
    }
    EXPECT_TRUE(once.incomplete_keys().empty()) << what;
  }
}

TEST(EqualGroups, TheSecondKernelReadsItsOwnValues) {
  for (const EqualCase& c : kCases) {
    const auto g = graph_of(c);
    ASSERT_NE(g, nullptr);
    expect_own_values(*g, false, c.what);
  }
}

// MatMul packs the constant behind a Transpose, even if another kernel computes the Transpose. The
// two chains are equal but for the weight that the last product of each is multiplied by.
TEST(EqualGroups, TransposedConstantsOfOtherKernels) {
  std::string text = "graph g\ninput a0: float32[6,6]\ninput b0: float32[6,6]\n";
  for (const char* name : {"wa", "wb", "wc"}) {
    text += std::string("const ") + name + ": float32[6,6]{1";
    for (int i = 1; i < 36; ++i) text += ", " + std::to_string(i % 7);
    text += "}\n";
  }
  text +=
      "ta = Transpose<perm=[1, 0]>(wa)\ntb = Transpose<perm=[1, 0]>(wb)\n"
      "au = MatMul(a0, ta)\na1 = Relu(au)\nav = MatMul(a1, ta)\na2 = Mul(av, wa)\n"
      "bu = MatMul(b0, tb)\nb1 = Relu(bu)\nbv = MatMul(b1, tb)\nb2 = Mul(bv, wc)\n"
      "b3 = MatMul(b2, tb)\nb4 = MatMul(b3, wb)\n"
      "output a2, b2, b4, ta, tb\n";
  const auto g = graph::parse(text);
  ASSERT_TRUE(g.ok()) << g.status().message();
  expect_own_values(**g, true, "fused");
  expect_own_values(**g, false, "apart");
}

/// Layers of a product, a bias, an activation and a normalisation.
std::unique_ptr<graph::Graph> layers(int count) {
  std::string text = "graph g\ninput x0: float32[4,6]\nconst eps: float32[]{0.5}\n";
  std::string nodes, x = "x0";
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    text += "const w" + n + ": float32[6,6]{1";
    for (int e = 1; e < 36; ++e) text += ", " + std::to_string((e + i) % 7);
    text += "}\n";
    nodes += "p" + n + " = MatMul(" + x + ", w" + n + ")\nr" + n + " = Relu(p" + n + ")\ns" + n +
             " = ReduceSum<axes=[1], keepdims=1>(r" + n + ")\na" + n + " = Add(s" + n +
             ", eps)\nx" + std::to_string(i + 1) + " = Div(r" + n + ", a" + n + ")\n";
    x = "x" + std::to_string(i + 1);
  }
  text += nodes + "output " + x + "\n";
  auto g = graph::parse(text);
  EXPECT_TRUE(g.ok()) << g.status().message() << "\n" << text;
  return g.ok() ? std::move(*g) : nullptr;
}

std::vector<std::string> keys_of(const graph::Graph& g, const Fusion& fusion) {
  std::vector<std::string> keys;
  for (const Group& group : fusion.groups) keys.push_back(key_of(g, group).bytes);
  return keys;
}

TEST(EqualGroups, TheIndicesOfEqualLayersAreTestedOnce) {
  size_t passed = 0;
  for (const int count : {2, 6}) {
    const auto g = layers(count);
    ASSERT_NE(g, nullptr);
    const auto alone = fuse(*g);
    IndexTests tests;
    ASSERT_TRUE(alone.ok());
    const auto copy = g->clone();
    for (const graph::Graph* each : {g.get(), g.get(), copy.get()}) {
      const auto fusion = fuse(*each, {.tests = &tests});
      ASSERT_TRUE(fusion.ok());
      EXPECT_EQ(keys_of(*each, *fusion), keys_of(*g, *alone));
      EXPECT_GT(tests.passed(), 0U);
      if (passed == 0) passed = tests.passed();
      EXPECT_EQ(tests.passed(), passed) << count << " layers";
    }
  }
}

}  // namespace
}  // namespace reprise::lower
