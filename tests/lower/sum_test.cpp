// Sums of many elements are as exact as one rounding of the whole allows, on every Vulkan variant
// and device. The host adds in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/lower/model_on_variants.h"

namespace reprise {
namespace {

struct SumModel {
  const char* name;
  std::vector<int64_t> dims;
  const char* node;
};

const SumModel kModels[] = {
    {"line", {60000}, "CumSum(x, zero) @14"},
    {"line_of_vectors", {3, 20001}, "CumSum(x, last) @14"},
    {"columns", {20000, 8}, "CumSum(x, zero) @14"},
    {"many_lines", {128, 2000}, "CumSum(x, last) @14"},
    {"exclusive", {60000}, "CumSum<exclusive=1>(x, zero) @14"},
    {"reverse", {60000}, "CumSum<reverse=1>(x, zero) @14"},
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
      error = std::max(error, std::abs(found - want));
    }
    // The totals of parts are added without compensation, in at most 10 steps.
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
