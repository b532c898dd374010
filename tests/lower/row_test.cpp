// What row kernels keep between their loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "codegen/compile/targets.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/lower/lower.h"
#include "codegen/passes/pass.h"
#include "tests/lower/model_on_variants.h"

namespace reprise::lower {
namespace {

/// A Concat is computed one lane after another. That is one place where it is computed: the second
/// and the third loop load what the first one stored.
TEST(Row, VectorsOfSingleLanesAreStoredOnce) {
  auto g = graph::parse(
      "graph norm\ninput x: float32[2,3,4,8]\ninput y: float32[2,3,4,8]\ninput s: float32[96]\n"
      "input b: float32[96]\n"
      "c = Concat<axis=1>(x, y) @13\n"
      "r = Reshape<shape=(2, 2, 96)>(c)\n"
      "z = LayerNormalization<axis=-1>(r, s, b) @17\noutput z\n");
  ASSERT_TRUE(g.ok()) << g.status().message();
  for (const passes::Pass& p : passes::pipeline()) ASSERT_TRUE(passes::run(p, **g).ok()) << p.name;
  const auto fusion = fuse(**g);
  ASSERT_TRUE(fusion.ok()) << fusion.status().message();
  ASSERT_EQ(fusion->groups.size(), 1U);
  for (const Target& target : vulkan_targets()) {
    if (!target.cpu_type()) continue;  // GPUs compute again instead (RowStages::choose_reloads)
    const auto l = lower(**g, fusion->groups[0], target);
    ASSERT_TRUE(l.ok()) << l.status().message();
    const auto keeps_concat = [&](const LoweredBuffer& b) {
      const graph::Node* n = (*g)->value(b.value).producer;
      return b.scratch && n != nullptr && n->op == "Concat";
    };
    const LoweredLaunch& launch = l->launches[0];
    EXPECT_TRUE(std::any_of(launch.buffers.begin(), launch.buffers.end(), keeps_concat))
        << target.name << "\n"
        << kernel::print(launch.kernel);
  }
}

/// Each value is read by two others, so that the paths through the graph double with every layer:
/// walking each of them would not end.
TEST(Row, ManyLayersThatReadAValueTwice) {
  std::string text = "graph layers\ninput x0: float32[4,16]\n";
  constexpr int kLayers = 30;
  for (int i = 0; i < kLayers; ++i) {
    const std::string n = std::to_string(i);
    text += "s" + n + " = Softmax<axis=-1>(x" + n + ") @13\n";
    text += "x" + std::to_string(i + 1) + " = Mul(s" + n + ", x" + n + ") @13\n";
  }
  auto g = graph::parse(text + "output x" + std::to_string(kLayers) + "\n");
  ASSERT_TRUE(g.ok()) << g.status().message();
  for (const passes::Pass& p : passes::pipeline()) ASSERT_TRUE(passes::run(p, **g).ok()) << p.name;
  const auto fusion = fuse(**g);
  ASSERT_TRUE(fusion.ok()) << fusion.status().message();
  EXPECT_LT(fusion->groups.size(), static_cast<size_t>(kLayers));
  for (const Group& group : fusion->groups) {
    const auto l = lower(**g, group, vulkan_targets().front());
    EXPECT_TRUE(l.ok()) << l.status().message();
  }
}

/// Rows of any length have a long form on CPU-type devices, but not rows of a length that the
/// model limits.
TEST(Row, LongFormsAreMadeWhereRowsMayBeLong) {
  const struct {
    const char* symbol;
    bool expected;
  } cases[] = {{"symbol n in 0..100000000 divisor 1 from input 0 axis 1\n", true},
               {"symbol n in 0..512 divisor 1 from input 0 axis 1\n", false}};
  for (const auto& c : cases) {
    auto g = graph::parse(std::string("graph rows\n") + c.symbol +
                          "input x: float32[2,n]\ny = Softmax<axis=-1>(x) @13\noutput y\n");
    ASSERT_TRUE(g.ok()) << g.status().message();
    for (const passes::Pass& p : passes::pipeline())
      ASSERT_TRUE(passes::run(p, **g).ok()) << p.name;
    const auto fusion = fuse(**g);
    ASSERT_TRUE(fusion.ok()) << fusion.status().message();
    bool any = false;
    for (const Group& group : fusion->groups) {
      for (const Target& target : vulkan_targets()) {
        const auto l = lower(**g, group, target);
        ASSERT_TRUE(l.ok()) << l.status().message();
        const bool has_one = !needs_long_form(**g, *l, group, target).is_const(0);
        EXPECT_TRUE(target.cpu_type() || !has_one) << target.name;
        any |= has_one;
      }
    }
    EXPECT_EQ(any, c.expected) << c.symbol;
  }
}

class RowSums : public testing::Test, public test::ModelOnVariants {
 protected:
  static constexpr int64_t kColumns = 32768;

  /// Sums of rows of `elements`.
  void sum(const std::vector<float>& elements) {
    const int64_t rows = static_cast<int64_t>(elements.size()) / kColumns;
    fullgraph_ = true;
    load("graph sums\ninput x: float32[" + std::to_string(rows) + "," + std::to_string(kColumns) +
             "]\nconst axis: int64[1]{1}\ny = ReduceSum<keepdims=0>(x, axis) @13\noutput y\n",
         {HostTensor::from<float>(DType::F32, {rows, kColumns}, elements)});
    interpret_every_variant();
    run_on_devices();
  }
  void compare(size_t output, std::span<const std::byte> actual, const std::string& what) override {
    const HostTensor& expected = expected_[output];
    ASSERT_EQ(actual.size(), expected.bytes().size()) << what;
    for (int64_t i = 0; i < expected.count(); ++i) {
      float y = 0;
      std::memcpy(&y, actual.data() + static_cast<size_t>(i) * sizeof(float), sizeof(float));
      const float e = expected.data<float>()[i];
      EXPECT_TRUE(y == e || (y != y && e != e))
          << what << ": row " << i << " is " << y << ", not " << e;
    }
  }
};

/// Rounding takes several thousands from partial sums of 10^9, and the results are below 3 million.
TEST_F(RowSums, LargePartsCancel) {
  std::vector<float> x(10 * kColumns);
  for (size_t i = 0; i < x.size(); ++i) {
    const float large = i % kColumns < kColumns / 2 ? 1e8F : -1e8F;
    x[i] = large + 8 * static_cast<float>(i * 7919 % 19);
  }
  sum(x);
}

TEST_F(RowSums, InfinitiesAndNanHaveNoErrorToAdd) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kMost = std::numeric_limits<float>::max();
  std::vector<float> x(10 * kColumns, 1);
  x[kColumns + 77] = kInf;
  x[2 * kColumns + 5000] = -kInf;
  x[3 * kColumns + 1] = std::numeric_limits<float>::quiet_NaN();
  x[4 * kColumns + 300] = kInf, x[5 * kColumns - 1] = -kInf;
  std::fill_n(x.begin() + 5 * kColumns, kColumns, kMost);
  std::fill_n(x.begin() + 6 * kColumns, kColumns, -kMost);
  sum(x);
}

}  // namespace
}  // namespace reprise::lower
