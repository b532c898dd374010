// Random operators: their distributions, with fixed seeds. tests/control_flow has their runs.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/host/cases.h"
#include "tests/support/tensors.h"

namespace reprise::test {
namespace {

constexpr int64_t kCount = 100'000;

std::vector<double> draw(const std::string& op, const AttrMap& attrs, const Inputs& inputs = {},
                         size_t output = 0) {
  std::vector<const HostTensor*> pointers;
  for (const auto& t : inputs) pointers.push_back(t ? &*t : nullptr);
  const auto results = host::find(op)({.op = op,
                                       .attrs = attrs,
                                       .inputs = pointers,
                                       .output_count = output + 1,
                                       .random = {.seed = 5, .position = 7}});
  EXPECT_TRUE(results.ok()) << results.status().message();
  std::vector<double> out;
  if (!results.ok()) return out;
  const HostTensor& t = (*results)[output];
  for (int64_t i = 0; i < t.count(); ++i) out.push_back(test::number(t, i));
  return out;
}

double mean(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x;
  return sum / static_cast<double>(v.size());
}

double variance(const std::vector<double>& v) {
  const double m = mean(v);
  double sum = 0;
  for (const double x : v) sum += (x - m) * (x - m);
  return sum / static_cast<double>(v.size());
}

/// The correlation of neighbours.
double correlation(const std::vector<double>& v) {
  const double m = mean(v);
  double sum = 0;
  for (size_t i = 1; i < v.size(); ++i) sum += (v[i] - m) * (v[i - 1] - m);
  return sum / static_cast<double>(v.size()) / variance(v);
}

// Seeds are fixed, so the test is deterministic. The bounds are five standard deviations of each
// estimate.
TEST(HostRandom, NormalNumbers) {
  const auto v =
      draw("RandomNormal", attrs({{"shape", ints({kCount})}, {"mean", 3.0F}, {"scale", 2.0F}}));
  EXPECT_NEAR(mean(v), 3, 5 * 2 / std::sqrt(kCount));
  EXPECT_NEAR(variance(v), 4, 5 * 4 * std::sqrt(2.0 / kCount));
  EXPECT_NEAR(correlation(v), 0, 5 / std::sqrt(kCount));
  double beyond = 0;  // two standard deviations
  for (const double x : v) beyond += std::fabs(x - 3) > 4 ? 1 : 0;
  EXPECT_NEAR(beyond / kCount, 0.0455, 5 * std::sqrt(0.0455 * 0.9545 / kCount));
}

TEST(HostRandom, UniformNumbers) {
  const auto v =
      draw("RandomUniform", attrs({{"shape", ints({kCount})}, {"low", -1.0F}, {"high", 3.0F}}));
  EXPECT_NEAR(mean(v), 1, 5 * std::sqrt(16.0 / 12 / kCount));
  EXPECT_NEAR(variance(v), 16.0 / 12, 0.02);
  EXPECT_NEAR(correlation(v), 0, 5 / std::sqrt(kCount));
  for (const double x : v) ASSERT_TRUE(x >= -1 && x < 3);
}

/// Numbers that are rounded to the dtype stay in [low, high).
TEST(HostRandom, UniformNumbersAreBelowTheirBound) {
  struct Range {
    DType dtype;
    float low, high;
  };
  const std::vector<Range> kRanges = {
      {DType::F16, 0, 1},          {DType::BF16, 0, 1},   {DType::F32, 16777216, 16777220},
      {DType::F16, -1, 0},         {DType::BF16, -3, -1}, {DType::F16, 0.1F, 0.101F},
      {DType::F16, 65000, 1.0e9F}, {DType::F64, 0, 1}};
  for (const Range& r : kRanges) {
    const auto v = draw("RandomUniform", attrs({{"shape", ints({kCount})},
                                                {"dtype", int64_t{onnx_number_of(r.dtype)}},
                                                {"low", r.low},
                                                {"high", r.high}}));
    ASSERT_EQ(v.size(), static_cast<size_t>(kCount));
    for (const double x : v)
      ASSERT_TRUE(x >= static_cast<double>(r.low) && x < static_cast<double>(r.high))
          << x << " of " << name_of(r.dtype);
  }
}

TEST(HostRandom, Bernoulli) {
  const HostTensor p = f32({kCount}, std::vector<float>(kCount, 0.3F));
  const auto v = draw("Bernoulli", {}, {p});
  EXPECT_NEAR(mean(v), 0.3, 5 * std::sqrt(0.21 / kCount));
  for (const double x : v) ASSERT_TRUE(x == 0 || x == 1);
}

TEST(HostRandom, Multinomial) {
  // The classes have the parts 0, 0.25 and 0.75.
  const HostTensor logits = f32({1, 3}, {-kInf, 2.0F, 2.0F + std::log(3.0F)});
  const auto v = draw("Multinomial", attrs({{"sample_size", kCount}}), {logits});
  double last = 0;
  for (const double x : v) {
    ASSERT_TRUE(x == 1 || x == 2);
    last += x == 2 ? 1 : 0;
  }
  EXPECT_NEAR(last / kCount, 0.75, 5 * std::sqrt(0.1875 / kCount));
}

TEST(HostRandom, DropoutScalesWhatItKeeps) {
  const Inputs inputs{f32({kCount}, std::vector<float>(kCount, 2.0F)), f32({}, {0.2F}),
                      boolean({}, {1})};
  const auto y = draw("Dropout", {}, inputs);
  const auto mask = draw("Dropout", {}, inputs, 1);
  EXPECT_NEAR(mean(mask), 0.8, 5 * std::sqrt(0.16 / kCount));
  for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], mask[i] * 2.5, 1e-6);
}

TEST(HostRandom, RefusesWhatHasNoMeaning) {
  run_error_cases({
      {"probability", "Bernoulli", {f32({1}, {1.5F})}, Code::InvalidInput, "not in [0, 1]"},
      {"ratio",
       "Dropout",
       {f32({1}, {1}), f32({}, {1}), boolean({}, {1})},
       Code::InvalidInput,
       "not in [0, 1)"},
      {"no class", "Multinomial", {f32({1, 0}, {})}, Code::InvalidInput, "no classes"},
      {"no value",
       "RandomUniform",
       {},
       Code::InvalidModel,
       "no float16 is at least 'low'",
       attrs({{"shape", ints({1})}, {"dtype", int64_t{10}}, {"low", 1.0e6F}, {"high", 2.0e6F}})},
      {"nan",
       "Multinomial",
       {f32({2, 1}, {0, kNaN})},
       Code::InvalidInput,
       "row 1 must have a finite logarithm of a probability"},
      {"dtype",
       "RandomNormal",
       {},
       Code::InvalidModel,
       "must be a float type, is int32",
       attrs({{"shape", ints({1})}, {"dtype", int64_t{6}}})},
      {"strings",
       "Bernoulli",
       {f32({1}, {0.5F})},
       Code::InvalidModel,
       "must be a float type, an integer type or bool, is string",
       attrs({{"dtype", int64_t{8}}})},
  });
}

}  // namespace
}  // namespace reprise::test
