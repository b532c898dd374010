// Every call of the driver fails once, in each state of runs that do not block, in streams of the
// library and in one of the application.
#include <array>
#include <atomic>
#include <optional>

#include "backends/cuda/library.h"
#include "on_standin.h"
#include "swallowed.h"
#include "tests/support/async_life.h"

namespace reprise::test {
namespace {

/// The context and stream of an application.
class Application {
 public:
  Application() : library_(*cuda::Library::open(cuda::kDriverLibrary, {})) {
    EXPECT_EQ(fn().cuDevicePrimaryCtxRetain(&context_, 0), cuda::CUDA_SUCCESS);
    EXPECT_EQ(fn().cuCtxPushCurrent_v2(context_), cuda::CUDA_SUCCESS);
    EXPECT_EQ(fn().cuStreamCreate(&stream_, cuda::CU_STREAM_NON_BLOCKING), cuda::CUDA_SUCCESS);
  }
  Application(const Application&) = delete;
  Application& operator=(const Application&) = delete;
  ~Application() {
    EXPECT_EQ(fn().cuStreamDestroy_v2(stream_), cuda::CUDA_SUCCESS);
    cuda::CUcontext popped = nullptr;
    EXPECT_EQ(fn().cuCtxPopCurrent_v2(&popped), cuda::CUDA_SUCCESS);
    EXPECT_EQ(popped, context_) << "the current context was changed";
    EXPECT_EQ(fn().cuDevicePrimaryCtxRelease_v2(0), cuda::CUDA_SUCCESS);
  }
  BackendOptions lends() const {
    BackendOptions options;
    options.cuda = {context_, stream_};
    return options;
  }

 private:
  const cuda::Table& fn() const { return library_->fn(); }
  std::shared_ptr<const cuda::Library> library_;
  cuda::CUcontext context_ = nullptr;
  cuda::CUstream stream_ = nullptr;
};

/// How often these are called is a matter of time, and of the thread that watches for ends, which
/// asks again after a failure.
bool follows_the_clock(const std::string& symbol) {
  return symbol == "cuEventQuery" || symbol == "cuCtxPushCurrent_v2" ||
         symbol == "cuCtxPopCurrent_v2";
}

/// An allocation that fails for lack of memory is tried once more when idle memory was freed.
bool is_tried_again(const std::string& symbol, int error) {
  return error == cuda::CUDA_ERROR_OUT_OF_MEMORY &&
         (symbol == "cuMemAlloc_v2" || symbol == "cuMemHostAlloc" ||
          symbol == "cuMemHostGetDevicePointer_v2");
}

class CudaAsyncFaults : public OnStandin {
 protected:
  /// Call `n` of the symbol from here on fails; false if there are fewer.
  bool inject(const std::string& symbol, uint64_t n, int error, bool lent) {
    const uint64_t live = stat("live"), leaks = stat("leaks");
    const std::string where = symbol + ", call " + std::to_string(n) + ": ";
    bool reached = false;
    {
      std::optional<Application> app;
      if (lent) app.emplace();
      const BackendOptions options = lent ? app->lends() : BackendOptions();
      auto device = open(0, options);
      auto life = AsyncLife::create(device);
      EXPECT_TRUE(life.ok()) << where << life.status().message();
      if (!life.ok()) return false;
      fail(symbol, n, error);
      const Status failure = (*life)->live();
      reached = calls(symbol) >= n;
      set("FAIL", "");
      expect_outcome(symbol, failure, reached, error, where);
      const bool lost = !device->allocate(64, MemoryUse::Device).ok();
      EXPECT_EQ(lost, failure.code() == Code::DeviceLost) << where;
      if (lost) {
        *life = nullptr;
        device = open(0, options);
      }
      const Status after = live_once(device);
      EXPECT_TRUE(after.ok()) << where << after.message();
    }
    if (!keeps(symbol)) {
      EXPECT_EQ(stat("leaks"), leaks) << where;
      EXPECT_EQ(stat("live"), live) << where;
    }
    return reached;
  }

  /// Every `step`th call of `symbol` fails in turn; how many did.
  uint64_t check(const std::string& symbol, int error, bool lent, uint64_t step) {
    const uint64_t most = follows_the_clock(symbol) ? 20 : ~uint64_t{0};
    uint64_t injected = 0;
    for (uint64_t n = 1; n <= most && !HasFailure(); n += step, ++injected)
      if (!inject(symbol, n, error, lent)) break;
    return injected;
  }

  uint64_t check_all(uint64_t step) {
    uint64_t injected = 0;
#define REPRISE_NAME_OF(symbol, parameters) #symbol,
    for (const std::string symbol :
         {REPRISE_CUDA_SYMBOLS(REPRISE_NAME_OF) REPRISE_CUDA_OPTIONAL_SYMBOLS(REPRISE_NAME_OF)}) {
      if (keeps(symbol)) continue;
      for (const bool lent : {false, true}) {
        injected += check(symbol, cuda::CUDA_ERROR_OUT_OF_MEMORY, lent, step);
        injected += check(symbol, cuda::CUDA_ERROR_LAUNCH_FAILED, lent, step);
      }
    }
    return injected;
  }

 private:
  /// What a call that failed became: an error that names it, or a success that is in the table.
  static void expect_outcome(const std::string& symbol, const Status& s, bool failed, int error,
                             const std::string& where) {
    if (!failed) {
      EXPECT_TRUE(s.ok()) << where << s.message();
      return;
    }
    if (s.ok()) {
      EXPECT_TRUE(may_be_swallowed(symbol) || follows_the_clock(symbol) ||
                  is_tried_again(symbol, error))
          << where << "the failure was swallowed";
      return;
    }
    const bool memory = error == cuda::CUDA_ERROR_OUT_OF_MEMORY;
    EXPECT_EQ(s.code(), memory ? Code::OutOfMemory : Code::DeviceLost) << where << s.message();
    EXPECT_NE(s.message().find("cu"), std::string::npos) << where << s.message();
    EXPECT_NE(s.message().find("CUDA_ERROR_"), std::string::npos) << where << s.message();
  }
};

TEST_F(CudaAsyncFaults, SomeCallFails) {
  EXPECT_GT(check_all(5), 40U);
}

TEST_F(CudaAsyncFaults, AFaultOfAKernelReachesEveryRunInFlight) {
  std::atomic<int> called = 0;
  const EndCall at_end{[](void* user) { ++*static_cast<std::atomic<int>*>(user); }, &called};
  auto device = open();
  {
    auto s = session(chain(2, 100, false), device);
    ASSERT_TRUE(s);
    HostTensor x = floats({100}, ramp(100));
    const std::array<Binding, 1> inputs{{{.name = "x", .host = &x}}};
    std::array<std::unique_ptr<AsyncRun>, 2> runs;
    set("FAULT", "affine");
    set("HOLD", "1");  // both are submitted before the kernel of the first one fails
    for (auto& run : runs) {
      run = *s->make_run();
      ASSERT_OK(run->bind(inputs, {}));
      ASSERT_OK(run->submit({.at_end = at_end}).status());
    }
    set("HOLD", "");
    std::vector<HostTensor> results;
    for (auto& run : runs) EXPECT_EQ(run->wait(results, nullptr).code(), Code::DeviceLost);
    EXPECT_EQ(called, 2);
    set("FAULT", "");
  }
  device.reset();
  ASSERT_OK(live_once(open()));
}

TEST_F(CudaAsyncFaults, FullEveryCallFailsInTurn) {
  EXPECT_GT(check_all(1), 200U);
}

}  // namespace
}  // namespace reprise::test
