// The errors of long sums do not grow with the number of elements, on every Vulkan variant and
// device. The host adds in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/lower/model_on_variants.h"

namespace reprise {
namespace {

struct SumModel {
  const char* name;
  std::vector<int64_t> dims;
  const char* node;
  bool is_extreme = false;  // sums come near the largest float, and no sum is beyond it
};

const SumModel kModels[] = {
    {"line", {60000}, "CumSum(x, zero) @14"},
    {"line_of_vectors", {3, 20001}, "CumSum(x, last) @14"},
    {"columns", {20000, 8}, "CumSum(x, zero) @14"},
    {"many_lines", {128, 2000}, "CumSum(x, last) @14"},
    {"exclusive", {60000}, "CumSum<exclusive=1>(x, zero) @14"},
    {"reverse", {60000}, "CumSum<reverse=1>(x, zero) @14"},
    {"extreme_columns", {3001, 3}, "CumSum(x, zero) @14", true},
    {"extreme_line", {3001}, "CumSum(x, zero) @14", true},
    {"sum", {2, 60000}, "ReduceSum<axes=[1]>(x) @11"},
    {"sum_of_columns", {60000, 4}, "ReduceSum<axes=[0]>(x) @11"},
};

class Sums : public testing::TestWithParam<SumModel>, public test::ModelOnVariants {
 protected:
  void SetUp() override {
    const SumModel& m = GetParam();
    std::string dims;
    int64_t count = 1;
    for (const int64_t d : m.dims) {
      dims += (dims.empty() ? "" : ",") + std::to_string(d);
      count *= d;
    }
    std::vector<float> x;
    for (int64_t i = 0; i < count; ++i)
      x.push_back(0.3F + static_cast<float>(i * 7919 % 1009) / 1009);
    if (m.is_extreme) {
      std::ranges::fill(x, 0.0F);
      constexpr float kLargest = std::numeric_limits<float>::max();
      const float first[] = {-(kLargest - 0x1p104F), 0x1p103F, kLargest};
      const auto step = static_cast<size_t>(count / m.dims[0]);
      for (size_t row = 0; row < 3; ++row)
        for (size_t i = 0; i < step; ++i) x[row * step + i] = first[row];
    }
    std::vector<HostTensor> inputs;
    inputs.push_back(HostTensor::from(DType::F32, m.dims, x));
    load("graph g\ninput x: float32[" + dims +
             "]\nconst zero: int64[]{0}\nconst last: int64[]{-1}\ny = " + m.node + "\noutput y\n",
         std::move(inputs));
  }

  void compare(size_t output, std::span<const std::byte> actual, const std::string& what) override {
    const HostTensor& expected = expected_[output];
    ASSERT_GE(actual.size(), expected.bytes().size()) << what;
    double largest = 0, error = 0;
    for (int64_t i = 0; i < expected.count(); ++i) {
      const double want = expected.data<float>()[i];
      float found = 0;
      std::memcpy(&found, &actual[static_cast<size_t>(i) * 4], 4);
      largest = std::max(largest, std::abs(want));
      ASSERT_FALSE(std::isnan(found)) << what;
      error = std::max(error, std::abs(found - want));
    }
    // Only the totals of segments are added without compensation, in at most 10 steps.
    EXPECT_LE(error, largest * 0x1p-22) << what;
  }
};

TEST_P(Sums, AreCompensated) {
  interpret_every_variant();
  if (HasFatalFailure()) return;
  run_on_devices();
}

INSTANTIATE_TEST_SUITE_P(Long, Sums, testing::ValuesIn(kModels),
                         [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace reprise
