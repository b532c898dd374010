// Runs that do not end in the time they are given.
#include <array>
#include <atomic>
#include <chrono>
#include <future>

#include "backends/cuda/driver.h"
#include "on_standin.h"
#include "tests/support/process.h"

namespace reprise::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr auto kAtLast = std::chrono::minutes(5);  // what has to end has ended

class CudaTimeout : public OnStandin {};

// Drivers wait for all work of a context before they free.
TEST_F(CudaTimeout, WhatGoesWhileARunIsOverdueIsFreedWhenItEnds) {
  auto device = open();
  auto other = session(chain(1, 100, false), device);
  auto buffer = device->allocate(64, MemoryUse::Device);
  ASSERT_OK(buffer.status());
  SessionOptions options;
  options.timeout_ns = kSecond;
  auto s = session(chain(2, 100, false), device, options);
  ASSERT_TRUE(s && other);
  set("HOLD", "1");
  EXPECT_EQ(run_chain(*s, 100, 2).code(), Code::Timeout);
  uint64_t live = stat("live");
  reset_calls();
  buffer->reset();
  other.reset();
  EXPECT_EQ(stat("live"), live);
  EXPECT_EQ(calls("cuMemFree_v2") + calls("cuModuleUnload"), 0U);
  set("HOLD", "");
  // Now what was kept goes although nobody waits for that run, and what goes later goes at once.
  for (const auto start = Clock::now(); stat("live") >= live && Clock::now() - start < kAtLast;)
    ASSERT_OK(device->allocate(64, MemoryUse::Device).status());
  EXPECT_LT(stat("live"), live);
  live = stat("live");
  buffer = device->allocate(64, MemoryUse::Device);
  ASSERT_OK(buffer.status());
  buffer->reset();
  EXPECT_EQ(stat("live"), live);
  s.reset();
  EXPECT_LT(stat("live"), live);
  s = session(chain(2, 100, false), device);
  ASSERT_TRUE(s);
  ASSERT_OK(run_chain(*s, 100, 2));
}

cuda::CUresult (*real_query)(cuda::CUevent) = nullptr;
std::atomic<bool> hangs = false;

Result<std::unique_ptr<Device>> open_that_may_hang(const BackendOptions& options) {
  return cuda::open(0, options, cuda::kDriverLibrary, [](cuda::Table& t) {
    real_query = t.cuEventQuery;
    t.cuEventQuery = [](cuda::CUevent e) {
      return hangs ? cuda::CUDA_ERROR_NOT_READY : real_query(e);
    };
  });
}

// In a process of its own: nothing is freed.
class CudaGivenUp : public CudaTimeout {};

TEST_F(CudaGivenUp, DISABLED_ARunThatNeverEnds) {
  driver_keeps_some_ = true;
  BackendOptions options;
  options.patience_ns = 20'000'000;
  auto opened = open_that_may_hang(options);
  ASSERT_OK(opened.status());
  std::shared_ptr<Device> device = std::move(*opened);
  auto buffer = device->allocate(64, MemoryUse::Device);
  ASSERT_OK(buffer.status());
  SessionOptions short_time;
  short_time.timeout_ns = 10'000'000;
  auto s = session(chain(2, 100, false), device, short_time);
  ASSERT_TRUE(s);
  hangs = true;
  const Status late = run_chain(*s, 100, 2);
  EXPECT_NE(late.message().find("within 0.01 s;"), std::string::npos) << late.message();
  const uint64_t live = stat("live");
  s.reset();
  buffer->reset();
  const Status later = device->allocate(64, MemoryUse::Device).status();
  EXPECT_EQ(later.code(), Code::DeviceLost);
  for (const char* part : {"another 0.02 s", "given up", "start the process again"})
    EXPECT_NE(later.message().find(part), std::string::npos) << later.message();
  device.reset();
  EXPECT_EQ(stat("live"), live);
  hangs = false;
  const Status again = cuda::open(0, {}).status();  // has the same context
  EXPECT_EQ(again.code(), Code::DeviceLost);
  for (const char* part : {"cannot be opened again", "given up", "start the process again"})
    EXPECT_NE(again.message().find(part), std::string::npos) << again.message();
}

TEST_F(CudaGivenUp, ARunThatNeverEndsIsGivenUp) {
  const ProcessResult r = run_process({"/proc/self/exe", "--gtest_filter=CudaGivenUp.DISABLED*",
                                       "--gtest_also_run_disabled_tests", "--gtest_output="});
  EXPECT_EQ(r.status, 0) << r.out << r.err;
  EXPECT_NE(r.out.find("[  PASSED  ] 1 test"), std::string::npos) << r.out;
}

TEST_F(CudaTimeout, TransfersInTheApplicationsStreamEndBehindARunThatHangs) {
  auto app = open();
  auto library = cuda::Library::open(cuda::kDriverLibrary, {});
  ASSERT_OK(library.status());
  const cuda::Table& fn = (*library)->fn();
  cuda::CUcontext context = nullptr;
  cuda::CUstream stream = nullptr;
  ASSERT_EQ(fn.cuDevicePrimaryCtxRetain(&context, 0), cuda::CUDA_SUCCESS);
  ASSERT_EQ(fn.cuCtxPushCurrent_v2(context), cuda::CUDA_SUCCESS);
  ASSERT_EQ(fn.cuStreamCreate(&stream, cuda::CU_STREAM_NON_BLOCKING), cuda::CUDA_SUCCESS);
  {
    BackendOptions options;
    options.patience_ns = 300'000'000;
    options.cuda = {context, stream};
    auto opened = open_that_may_hang(options);
    ASSERT_OK(opened.status());
    std::shared_ptr<Device> device = std::move(*opened);
    SessionOptions short_time;
    short_time.timeout_ns = 1'000'000;
    auto s = session(chain(2, 100, false), device, short_time);
    auto buffer = device->allocate(64, MemoryUse::Device);
    ASSERT_OK(buffer.status());
    hangs = true;
    EXPECT_EQ(run_chain(*s, 100, 2).code(), Code::Timeout);
    std::array<std::byte, 64> bytes{};
    const Status late = device->upload(**buffer, 0, bytes);
    EXPECT_EQ(late.code(), Code::Timeout);
    EXPECT_NE(late.message().find("transfer"), std::string::npos) << late.message();
    hangs = false;
    Status after = late;  // that run ends some time
    for (const auto start = Clock::now(); !after.ok() && Clock::now() - start < kAtLast;)
      after = device->upload(**buffer, 0, bytes);
    EXPECT_TRUE(after.ok()) << after.message();
    // One that began before the run timed out ends, too.
    s = session(chain(2, 100, false), device, short_time);
    hangs = true;
    auto waiting =
        std::async(std::launch::async, [&] { return device->upload(**buffer, 0, bytes); });
    EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
    EXPECT_EQ(run_chain(*s, 100, 2).code(), Code::Timeout);
    EXPECT_EQ(waiting.get().code(), Code::Timeout);
    hangs = false;
  }
  EXPECT_EQ(fn.cuStreamDestroy_v2(stream), cuda::CUDA_SUCCESS);
  EXPECT_EQ(fn.cuCtxPopCurrent_v2(&context), cuda::CUDA_SUCCESS);
  EXPECT_EQ(fn.cuDevicePrimaryCtxRelease_v2(0), cuda::CUDA_SUCCESS);
}

int queries_left = 0;

// A run that has ended when its like would nearly have says nothing of how long it took.
TEST_F(CudaTimeout, AShortRunAfterALongOneIsNotSleptThroughTwice) {
  cuda::Driver driver;
  driver.library = *cuda::Library::open(cuda::kDriverLibrary, [](cuda::Table& t) {
    t.cuEventQuery = [](cuda::CUevent) {
      return --queries_left > 0 ? cuda::CUDA_ERROR_NOT_READY : cuda::CUDA_SUCCESS;
    };
  });
  Clock::duration expected{};
  for (const auto& [queries, known] : {std::pair{1, false}, {5, true}, {2, false}, {2, true}}) {
    SCOPED_TRACE(queries);
    queries_left = queries;
    EXPECT_EQ(driver.wait_for(nullptr, kSecond, &expected), cuda::CUDA_SUCCESS);
    EXPECT_EQ(expected.count() > 0, known);
    if (known) expected = std::chrono::milliseconds(50);
  }
}

}  // namespace
}  // namespace reprise::test
