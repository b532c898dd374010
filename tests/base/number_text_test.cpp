#include "runtime/base/number_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/base/compare.h"

namespace reprise {
namespace {

TEST(NumberText, KeepsSmallAndLargeNumbers) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(number_text(0), "0");
  EXPECT_EQ(number_text(1.5), "1.5");
  EXPECT_EQ(number_text(1e-30), "1e-30");
  EXPECT_EQ(number_text(-3.5e30), "-3.5e+30");
  EXPECT_EQ(number_text(kInf), "inf");
  EXPECT_EQ(number_text(-kInf), "-inf");
  EXPECT_EQ(number_text(std::copysign(NAN, -1.0)), "nan");
}

TEST(NumberText, IsThatOfDifferences) {
  const auto floats = [](std::vector<float> v) {
    return HostTensor::from(DType::F32, {static_cast<int64_t>(v.size())}, std::move(v));
  };
  EXPECT_EQ(compare(floats({1e-30F}), floats({2e-30F}), {}).reason,
            "element 0 is 1e-30, expected 2.00000001e-30 within 0");
  EXPECT_EQ(compare(floats({-NAN}), floats({2e30F}), {1e-3, 0, 0}).reason,
            "element 0 is nan, expected 2.00000003e+30 within 2.00000003e+27");
  const auto ints = [](int64_t v) {
    return HostTensor::from(DType::I64, {1}, std::vector<int64_t>{v});
  };
  EXPECT_EQ(compare(ints((int64_t{1} << 60) + 1), ints(int64_t{1} << 60), {}).reason,
            "element 0 is 1152921504606846977, expected 1152921504606846976 exactly");
}

}  // namespace
}  // namespace reprise
