// Runs that need no memory of the heap, and calls that find none.
#include "allocations.h"
#include "support.h"

namespace reprise::test {
namespace {

/// Longer than a string that needs no memory.
constexpr const char* kResult = "the_result_of_the_last_launch";

class Allocation : public testing::TestWithParam<std::string> {};

TEST_P(Allocation, ASteadyRunTakesNothingFromTheHeap) {
  App app(GetParam(), 3, 0, kResult);
  reprise_error error{};
  const auto session = app.make_session(nullptr, &error);
  ASSERT_TRUE(session) << error.message;
  const std::vector<float> x = ramp(1000);
  std::vector<float> y(1000);
  for (int run = 0; run < 3; ++run)
    ASSERT_EQ(run_once(session.get(), x, y, &error, kResult), REPRISE_OK) << error.message;
  for (int run = 0; run < 3; ++run) {
    reprise_status status = REPRISE_INTERNAL;
    uint64_t taken = 0;
    {
      const CountAllocations counting;
      status = run_once(session.get(), x, y, &error, kResult);
      taken = counting.count();
    }
    ASSERT_EQ(status, REPRISE_OK) << error.message;
    EXPECT_EQ(taken, 0U);
  }
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], x[i] + static_cast<float>(app.launches));
}

/// What runs of two sizes, one after the other, take from the heap once both have run.
std::vector<uint64_t> taken_by_two_sizes(App& app) {
  std::vector<uint64_t> out;
  reprise_error error{};
  const auto session = app.make_session(nullptr, &error);
  EXPECT_TRUE(session) << error.message;
  const std::vector<float> few = ramp(90), many = ramp(1000);
  for (int run = 0; session && run < 12; ++run) {
    const std::vector<float>& x = run % 4 < 2 ? few : many;
    std::vector<float> y(x.size());
    reprise_status status = REPRISE_INTERNAL;
    uint64_t taken = 0;
    {
      const CountAllocations counting;
      status = run_once(session.get(), x, y, &error, kResult);
      taken = counting.count();
    }
    EXPECT_EQ(status, REPRISE_OK) << error.message;
    if (run > 3) out.push_back(taken);
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], x[i] + static_cast<float>(app.launches));
  }
  reprise_session_info info = REPRISE_SESSION_INFO_INIT;
  EXPECT_EQ(reprise_session_get_info(session.get(), &info, &error), REPRISE_OK);
  out.push_back(info.plan_count);
  return out;
}

TEST_P(Allocation, TheChoiceOfAPlanTakesNothingFromTheHeap) {
  App app(GetParam(), 3, 0, kResult);
  std::vector<uint64_t> one = taken_by_two_sizes(app);
  app.add_plan();
  const std::vector<uint64_t> two = taken_by_two_sizes(app);
  EXPECT_EQ(one.back(), 0U);
  EXPECT_EQ(two.back(), 1U);
  for (size_t run = 0; run + 1 < one.size(); ++run) EXPECT_LE(two[run], one[run]) << run;
  for (size_t run = 1; run + 1 < one.size(); run += 2) EXPECT_EQ(two[run], 0U) << run;
}

void bound_run_takes_nothing(const std::string& device, size_t launches) {
  App app(device, launches, 0, kResult);
  reprise_error error{};
  const auto session = app.make_session(nullptr, &error);
  ASSERT_TRUE(session) << error.message;
  const std::vector<float> x = ramp(1000);
  std::vector<float> y(1000);
  reprise_tensor in = REPRISE_TENSOR_INIT, out = REPRISE_TENSOR_INIT;
  in.name = "x";
  in.rank = 1;
  in.dims[0] = 1000;
  in.data = const_cast<float*>(x.data());  // inputs are not written
  in.bytes = 1000 * sizeof(float);
  out.name = kResult;
  out.data = y.data();
  out.bytes = 1000 * sizeof(float);
  reprise_run* made = nullptr;
  ASSERT_EQ(reprise_run_create(session.get(), &made, &error), REPRISE_OK) << error.message;
  const Owned<reprise_run> run(made);
  ASSERT_EQ(reprise_run_bind(made, &in, 1, &out, 1, &error), REPRISE_OK) << error.message;
  for (int i = 0; i < 6; ++i) {
    reprise_status submitted = REPRISE_INTERNAL, polled = REPRISE_OK, waited = REPRISE_INTERNAL;
    int32_t ended = 0;
    uint64_t taken = 0;
    {
      const CountAllocations counting;
      submitted = reprise_run_submit(made, nullptr, &error);
      while (polled == REPRISE_OK && ended == 0) polled = reprise_run_poll(made, &ended, &error);
      waited = reprise_run_wait(made, nullptr, nullptr, &error);
      taken = counting.count();
    }
    ASSERT_EQ(submitted, REPRISE_OK) << error.message;
    ASSERT_EQ(polled, REPRISE_OK) << error.message;
    ASSERT_EQ(waited, REPRISE_OK) << error.message;
    if (i > 2) {
      EXPECT_EQ(taken, 0U);
    }
    for (size_t e = 0; e < x.size(); ++e) ASSERT_EQ(y[e], x[e] + static_cast<float>(app.launches));
    y.assign(y.size(), -1);
  }
  EXPECT_EQ(out.rank, 1U);
  EXPECT_EQ(out.dims[0], 1000);
}

TEST_P(Allocation, ABoundRunTakesNothingFromTheHeap) {
  for (const size_t launches : {10, 1000}) {
    SCOPED_TRACE(launches);
    bound_run_takes_nothing(GetParam(), launches);
  }
}

// Allocations of a first run, and of one with another size, fail from some number on.
void expect_nothing_lost(App& app) {
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
      EXPECT_EQ(status, failed ? REPRISE_OUT_OF_MEMORY : REPRISE_OK) << error.message;
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

TEST_P(Allocation, WithoutMemoryEveryCallIsAnErrorAndNothingIsLost) {
  App app(GetParam());
  expect_nothing_lost(app);
}

// The first run of each plan prepares it.
TEST_P(Allocation, WithoutMemoryNoPlanIsLost) {
  App app(GetParam());
  app.add_plan();
  expect_nothing_lost(app);
}

// The same for a run object, whose calls after a failure are errors, too, or succeed.
TEST_P(Allocation, WithoutMemoryARunObjectStaysUsable) {
  App app(GetParam());
  reprise_error error{};
  const std::vector<float> x = ramp(2000);
  for (uint64_t at = 1;; at += 1 + at / 8) {
    const auto session = app.make_session(nullptr, &error);
    ASSERT_TRUE(session) << error.message;
    std::vector<float> y(2000);
    reprise_tensor in = REPRISE_TENSOR_INIT, out = REPRISE_TENSOR_INIT;
    in.name = "x";
    in.rank = 1;
    in.dims[0] = 2000;
    in.data = const_cast<float*>(x.data());  // inputs are not written
    in.bytes = out.bytes = 2000 * sizeof(float);
    out.name = "y";
    out.data = y.data();
    reprise_run* made = nullptr;
    ASSERT_EQ(reprise_run_create(session.get(), &made, &error), REPRISE_OK) << error.message;
    const Owned<reprise_run> run(made);
    ASSERT_EQ(reprise_run_bind(made, &in, 1, &out, 1, &error), REPRISE_OK) << error.message;
    reprise_status submitted = REPRISE_OK, waited = REPRISE_OK;
    bool failed = false;
    {
      const CountAllocations counting(at);
      submitted = reprise_run_submit(made, nullptr, &error);
      waited = reprise_run_wait(made, nullptr, nullptr, &error);
      failed = counting.count() >= at;
    }
    EXPECT_EQ(failed, submitted != REPRISE_OK || waited != REPRISE_OK) << at;
    EXPECT_NE(reprise_run_wait(made, nullptr, nullptr, &error), REPRISE_OK);
    ASSERT_EQ(reprise_run_submit(made, nullptr, &error), REPRISE_OK) << error.message;
    ASSERT_EQ(reprise_run_wait(made, nullptr, nullptr, &error), REPRISE_OK) << error.message;
    for (size_t i = 0; i < y.size(); ++i)
      ASSERT_EQ(y[i], x[i] + static_cast<float>(app.launches)) << "after failure " << at;
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
    EXPECT_EQ(status, REPRISE_OUT_OF_MEMORY);
    EXPECT_EQ(error.status, REPRISE_OUT_OF_MEMORY);
    EXPECT_STREQ(error.message, "out of host memory");
  }
}

}  // namespace
}  // namespace reprise::test
