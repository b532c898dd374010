#include "apps/common/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace reprise::app {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

HostTensor floats(const std::vector<float>& v) {
  return HostTensor::from(DType::F32, {static_cast<int64_t>(v.size())}, v);
}

TEST(Compare, OperatorToleranceIsTheSuites) {
  const Tolerance t = tolerance(Rule::Operator, DType::F32);
  EXPECT_TRUE(compare(floats({1.0009f, 0}), floats({1, 0}), t).ok);
  EXPECT_FALSE(compare(floats({1.0011f, 0}), floats({1, 0}), t).ok);
  EXPECT_FALSE(compare(floats({1, 1e-5f}), floats({1, 0}), t).ok);
}

TEST(Compare, ModelToleranceIsAFractionOfTheLargest) {
  const Tolerance t = tolerance(Rule::Model, DType::F32);
  EXPECT_TRUE(compare(floats({100, 0.009f}), floats({100, 0}), t).ok);
  EXPECT_FALSE(compare(floats({100, 0.011f}), floats({100, 0}), t).ok);
  EXPECT_GT(tolerance(Rule::Model, DType::F16).of_max, t.of_max);
  EXPECT_GT(tolerance(Rule::Model, DType::BF16).of_max, tolerance(Rule::Model, DType::F16).of_max);
}

TEST(Compare, NanAndInfinity) {
  const Tolerance t = tolerance(Rule::Operator, DType::F32);
  EXPECT_TRUE(compare(floats({kNan, kInf, -kInf}), floats({kNan, kInf, -kInf}), t).ok);
  EXPECT_FALSE(compare(floats({kNan}), floats({1}), t).ok);
  EXPECT_FALSE(compare(floats({1}), floats({kNan}), t).ok);
  EXPECT_FALSE(compare(floats({kInf}), floats({-kInf}), t).ok);
  EXPECT_FALSE(compare(floats({1e30f}), floats({kInf}), t).ok);
  const Comparison c = compare(floats({kNan}), floats({1}), t);
  EXPECT_TRUE(std::isinf(c.max_error));
  EXPECT_NE(c.reason.find("element 0"), std::string::npos);
}

TEST(Compare, IntegersAndStringsAreExact) {
  const Tolerance t = tolerance(Rule::Model, DType::I64);
  const auto ints = [](int64_t v) { return HostTensor::from(DType::I64, {1}, std::vector{v}); };
  EXPECT_TRUE(compare(ints(7), ints(7), t).ok);
  EXPECT_FALSE(compare(ints(7), ints(8), t).ok);
  // Beyond 2^53, where doubles of both are equal.
  EXPECT_FALSE(compare(ints((int64_t{1} << 60) + 1), ints(int64_t{1} << 60), t).ok);
  HostTensor a(DType::String, {2}), b(DType::String, {2});
  a.mutable_strings() = {"x", "y"};
  b.mutable_strings() = {"x", "z"};
  EXPECT_TRUE(compare(a, a, t).ok);
  EXPECT_FALSE(compare(a, b, t).ok);
}

TEST(Compare, ShapesAndTypesAreDifferences) {
  const Comparison c = compare(HostTensor(DType::F32, {2, 3}), HostTensor(DType::F32, {3, 2}),
                               tolerance(Rule::Model, DType::F32));
  EXPECT_FALSE(c.ok);
  EXPECT_NE(c.reason.find("float32[3,2]"), std::string::npos) << c.reason;
}

TEST(Compare, AShareOfTheElementsMayDiffer) {
  const Tolerance t{0, 0.1, 0, 0.5};
  EXPECT_TRUE(compare(floats({9, 2, 8, 4}), floats({1, 2, 3, 4}), t).ok);
  EXPECT_FALSE(compare(floats({9, 9, 9, 4}), floats({1, 2, 3, 4}), t).ok);
  EXPECT_FALSE(compare(floats({9, 2, kNan, 4}), floats({1, 2, 3, 4}), t).ok);
}

TEST(Compare, ExceptionsHaveReasons) {
  for (const ToleranceException& row : tolerance_exceptions()) {
    EXPECT_GT(row.reason.size(), 20u) << row.case_glob;
    const Tolerance usual = tolerance(Rule::Operator, row.dtype, "no such case");
    const Tolerance& t = row.tolerance;
    EXPECT_GE(t.rtol + t.atol + t.of_max + t.others, usual.rtol + usual.atol) << row.case_glob;
  }
}

TEST(Compare, SlackAddsToWhatIsAllowed) {
  const Tolerance t = tolerance(Rule::Model, DType::F32);
  const HostTensor a = HostTensor::from<float>(DType::F32, {2}, {1, 2});
  const HostTensor b = HostTensor::from<float>(DType::F32, {2}, {1.5F, 2});
  EXPECT_EQ(compare(a, b, t).differing, 1);
  EXPECT_TRUE(compare(a, b, t, std::vector<double>{0.6, 0}).ok);
  EXPECT_FALSE(compare(a, b, t, std::vector<double>{0.4, 0}).ok);
  EXPECT_FALSE(compare(a, b, t, std::vector<double>{0, 9}).ok);
  const HostTensor i = HostTensor::from<int32_t>(DType::I32, {2}, {1, 2});
  const HostTensor j = HostTensor::from<int32_t>(DType::I32, {2}, {3, 2});
  EXPECT_TRUE(compare(i, j, t, std::vector<double>{1, 0}).ok);
  EXPECT_FALSE(compare(i, j, t, std::vector<double>{0, 1}).ok);
}

TEST(Compare, BitsOfTwoRuns) {
  const HostTensor a = HostTensor::from<float>(DType::F32, {3}, {1, 0, 0.5F});
  EXPECT_EQ(bit_difference(a, a), "");
  EXPECT_EQ(bit_difference(a, HostTensor::from<float>(DType::F32, {3}, {1, 0, 0.25F})),
            "element 2 is 0.5 (0x3f000000) and 0.25 (0x3e800000)");
  EXPECT_EQ(bit_difference(a, HostTensor::from<float>(DType::F32, {3}, {1, -0.0F, 0.5F})),
            "element 1 is 0 (0x00000000) and -0 (0x80000000)");
  EXPECT_EQ(bit_difference(HostTensor::from<int8_t>(DType::I8, {2}, {3, -4}),
                           HostTensor::from<int8_t>(DType::I8, {2}, {3, 5})),
            "element 1 is -4 and 5");
  EXPECT_EQ(bit_difference(a, HostTensor(DType::F32, {2})), "is float32[3] and float32[2]");
  HostTensor s(DType::String, {1}), t(DType::String, {1});
  s.mutable_strings() = {"x"};
  t.mutable_strings() = {"y"};
  EXPECT_EQ(bit_difference(s, t), "element 0 is \"x\" and \"y\"");
}

TEST(Glob, Matches) {
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("test_conv*", "test_conv_basic"));
  EXPECT_TRUE(glob_match("*conv*bias", "test_conv_with_bias"));
  EXPECT_TRUE(glob_match("b?rt", "bert"));
  EXPECT_FALSE(glob_match("b?rt", "brt"));
  EXPECT_FALSE(glob_match("conv", "test_conv"));
  EXPECT_FALSE(glob_match("test_conv*", "test_con"));
}

}  // namespace
}  // namespace reprise::app
