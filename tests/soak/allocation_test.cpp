// Runs that need no memory of the heap, and calls that find none.
#include "allocations.h"
#include "support.h"

namespace reprise::test {
namespace {

class Allocation : public testing::TestWithParam<std::string> {};

TEST_P(Allocation, ASteadyRunTakesNothingFromTheHeap) {
  App app(GetParam());
  reprise_error error{};
  const auto session = app.make_session(nullptr, &error);
  ASSERT_TRUE(session) << error.message;
  const std::vector<float> x = ramp(1000);
  std::vector<float> y(1000);
  for (int run = 0; run < 3; ++run)
    ASSERT_EQ(run_once(session.get(), x, y, &error), REPRISE_OK) << error.message;
  for (int run = 0; run < 3; ++run) {
    reprise_status status = REPRISE_INTERNAL;
    uint64_t taken = 0;
    {
      const CountAllocations counting;
      status = run_once(session.get(), x, y, &error);
      taken = counting.count();
    }
    ASSERT_EQ(status, REPRISE_OK) << error.message;
    EXPECT_EQ(taken, 0U);
  }
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], x[i] + static_cast<float>(app.launches));
}

// Allocations of a first run, and of one with another size, fail from some number on.
TEST_P(Allocation, WithoutMemoryEveryCallIsAnErrorAndNothingIsLost) {
  App app(GetParam());
  reprise_error error{};
  const std::vector<float> small = ramp(100), large = ramp(2000);
  for (uint64_t at = 1;; at += 1 + at / 8) {
    const auto session = app.make_session(nullptr, &error);
    ASSERT_TRUE(session) << error.message;
    reprise_status status = REPRISE_OK;
    bool failed = false;
    for (const auto* x : {&small, &large}) {
      std::vector<float> y(x->size());
      {
        const CountAllocations counting(at);
        status = run_once(session.get(), *x, y, &error);
        failed = counting.count() >= at;
      }
      EXPECT_EQ(status, failed ? REPRISE_DEVICE : REPRISE_OK) << error.message;
      if (failed) {
        EXPECT_STREQ(error.message, "out of host memory");
      }
      ASSERT_EQ(run_once(session.get(), *x, y, &error), REPRISE_OK) << error.message;
      for (size_t i = 0; i < y.size(); ++i)
        ASSERT_EQ(y[i], (*x)[i] + static_cast<float>(app.launches)) << "after failure " << at;
    }
    if (!failed) break;
    ASSERT_LT(at, 10'000U);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Allocation, testing::ValuesIn(soak_devices()), id_as_name);

TEST(AllocationErrors, AreReportedWithoutMemory) {
  reprise_error error{};
  error.status = REPRISE_OK;
  reprise_package* package = nullptr;
  reprise_status status = REPRISE_OK;
  for (uint64_t at = 1; at < 4; ++at) {
    {
      const CountAllocations counting(at);
      status = reprise_package_open("/nowhere/a file whose name is long.rpk", &package, &error);
    }
    EXPECT_EQ(status, REPRISE_DEVICE);
    EXPECT_EQ(error.status, REPRISE_DEVICE);
    EXPECT_STREQ(error.message, "out of host memory");
  }
}

}  // namespace
}  // namespace reprise::test
