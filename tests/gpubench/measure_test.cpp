// Who is timed, and what is said of those who are not.
#include <gtest/gtest.h>

#include <cmath>

#include "bench/gpu/measure.h"

namespace reprise::bench::gpu {
namespace {

/// Gives one number, fails at a run if asked to.
class Fake final : public Contender {
 public:
  Fake(float value, int fails_at) : value_(value), fails_at_(fails_at) {}
  Status run() override {
    ++runs_;
    return runs_ == fails_at_ ? Status(Code::Device, "lost") : Status();
  }
  Status time_on_device() override {
    timed_ = true;
    return {};
  }
  double device_ms() const override { return timed_ ? 0.5 : -1; }
  double submit_us() const override { return 2; }
  Result<HostTensor> output(size_t) override {
    return HostTensor::from<float>(DType::F32, {1}, {value_});
  }
  int64_t launches() const override { return 3; }

 private:
  float value_;
  int fails_at_, runs_ = 0;
  bool timed_ = false;
};

Entry fake(const char* name, float value, int fails_at = -1, DType judged_as = DType::F32) {
  return {name, judged_as,
          [=] { return Result<ContenderPtr>(std::make_unique<Fake>(value, fails_at)); }};
}

Case of_one() {
  Case c{.name = "one", .group = "test"};
  c.operands = {{"x", DType::F32, {1}}};
  c.outputs = {{1}};
  c.expected = [](const Tensors&) { return Samples{{0, 0, 2.0}}; };
  return c;
}

constexpr uint64_t kMemory = uint64_t{1} << 30;

TEST(Measure, OnlyCorrectResultsAreTimed) {
  const std::vector<Entry> entries{fake("right", 2), fake("wrong", 2.01F), fake("nan", NAN),
                                   fake("tf32", 2.01F, -1, DType::F16)};
  const auto rows = measure(of_one(), {}, entries, kMemory, {5, 1});
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].status, "ok");
  EXPECT_EQ(rows[0].runs, 5);
  EXPECT_GE(rows[0].wall_ms, 0);
  EXPECT_EQ(rows[0].device_ms, 0.5);
  EXPECT_EQ(rows[0].submit_us, 2);
  EXPECT_EQ(rows[0].launches, 3);
  for (const size_t i : {1, 2}) {
    EXPECT_EQ(rows[i].status, "wrong");
    EXPECT_EQ(rows[i].wall_ms, -1);
    EXPECT_NE(rows[i].reason.find("0.0001 is allowed"), std::string::npos) << rows[i].reason;
  }
  EXPECT_NEAR(rows[1].error, 0.005, 1e-6);
  EXPECT_EQ(rows[2].error, INFINITY);
  EXPECT_EQ(rows[3].status, "ok");
}

TEST(Measure, AFailureHarmsNoOther) {
  const std::vector<Entry> entries{
      {"absent", DType::F32,
       []() -> Result<ContenderPtr> { return Status(Code::Unsupported, "no such library"); }},
      fake("first run", 2, 1),
      fake("later run", 2, 8),
      fake("fine", 2)};
  const auto rows = measure(of_one(), {}, entries, kMemory, {5, 1});
  const char* reasons[] = {"no such library", "lost", "lost", ""};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(rows[i].status, i == 3 ? "ok" : "failed") << rows[i].name;
    EXPECT_EQ(rows[i].reason, reasons[i]);
  }
  EXPECT_EQ(rows[3].runs, 5);
}

TEST(Measure, WhatDoesNotFitIsSkipped) {
  Case c = of_one();
  c.operands = {{"x", DType::F16, {1 << 20}}, {"w", DType::F32, {1 << 18}, true}};
  c.outputs = {{1 << 18}};
  EXPECT_EQ(bytes_needed(c), uint64_t{4} << 20);
  const auto rows = measure(c, {}, {fake("a", 2), fake("b", 2)}, uint64_t{8} << 20, {5, 1});
  for (const Measured& row : rows) {
    EXPECT_EQ(row.status, "skipped");
    EXPECT_EQ(row.reason, "8 MiB are needed for 2 contenders, the device has 8");
  }
}

TEST(Measure, ThreeRunsWhateverTheTime) {
  const auto rows = measure(of_one(), {}, {fake("slow", 2)}, kMemory, {50, 1e-9});
  EXPECT_EQ(rows[0].runs, 3);
}

}  // namespace
}  // namespace reprise::bench::gpu
