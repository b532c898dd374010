// What fails, fails clearly, leaves nothing behind, and harms nobody else.
#include <array>

#include "backends/cuda/api.h"
#include "on_standin.h"
#include "swallowed.h"
#include "tests/support/process.h"

namespace reprise::test {
namespace {

class CudaFaults : public OnStandin {};

TEST_F(CudaFaults, AFaultPoisonsItsContextAndNothingElse) {
  auto device = open();
  {
    auto bad = session(chain(2, 100, false), device), good = session(chain(3, 100, false), device);
    ASSERT_TRUE(bad && good);
    ASSERT_OK(run_chain(*good, 100, 3));
    set("FAULT", "affine");
    const Status fault = run_chain(*bad, 100, 2);
    set("FAULT", "");
    EXPECT_EQ(fault.code(), Code::DeviceLost);
    for (const char* part : {"CUDA_ERROR_ILLEGAL_ADDRESS", "cuda:0", "open it again"})
      EXPECT_NE(fault.message().find(part), std::string::npos) << fault.message();
    const Status others[] = {run_chain(*bad, 100, 2), run_chain(*good, 100, 3),
                             device->allocate(64, MemoryUse::Device).status(),
                             Session::create(chain(1, 4, false), device).status()};
    for (const Status& s : others) {
      EXPECT_EQ(s.code(), Code::DeviceLost);
      for (const char* part : {"earlier error", "CUDA_ERROR_ILLEGAL_ADDRESS", "open it again"})
        EXPECT_NE(s.message().find(part), std::string::npos) << s.message();
    }
  }
  device.reset();
  auto s = session(chain(2, 100, false), open());
  ASSERT_TRUE(s);
  ASSERT_OK(run_chain(*s, 100, 2));
}

TEST_F(CudaFaults, ImagesThatDoNotFitSayWhatToDo) {
  auto device = open();
  const struct {
    int error;
    const char* advice;
  } cases[] = {{cuda::CUDA_ERROR_NO_BINARY_FOR_GPU, "--targets cuda:sm_90"},
               {cuda::CUDA_ERROR_INVALID_IMAGE, "--targets cuda:sm_90"},
               {cuda::CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "update the driver"},
               {cuda::CUDA_ERROR_INVALID_PTX, "older NVRTC"},
               {cuda::CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "libnvidia-ptxjitcompiler"},
               {cuda::CUDA_ERROR_JIT_COMPILATION_DISABLED, "CUDA_DISABLE_PTX_JIT"}};
  const plan::KernelCode code = affine_kernel("scaled", 2, 0);
  for (const auto& c : cases) {
    fail("cuModuleLoadDataEx", 1, c.error);
    const Status s = device->create_kernels({&code, 1}).status();
    EXPECT_EQ(s.code(), Code::Device);
    for (const char* part : {"kernel 'scaled'", "CUDA_ERROR_", c.advice})
      EXPECT_NE(s.message().find(part), std::string::npos) << s.message();
  }
  set("FAIL", "");
  plan::KernelCode none = code;
  none.image.clear();
  const Status s = device->create_kernels({&none, 1}).status();
  EXPECT_EQ(s.code(), Code::InvalidModel);
  EXPECT_NE(s.message().find("--targets cuda:sm_90"), std::string::npos) << s.message();
}

// The driver would read parameters behind the block that a launch gives it.
TEST_F(CudaFaults, KernelsThatTakeMoreThanTheirBlockAreRefused) {
  auto device = open();
  plan::KernelCode code = affine_kernel("greedy", 2, 0);
  ASSERT_OK(device->create_kernels({&code, 1}).status());
  --code.n_buffers;
  code.n_scalars = 0;
  const Status s = device->create_kernels({&code, 1}).status();
  EXPECT_EQ(s.code(), Code::InvalidModel);
  for (const char* part : {"kernel 'greedy'", "40 bytes of parameters", "32 bytes"})
    EXPECT_NE(s.message().find(part), std::string::npos) << s.message();
}

TEST_F(CudaFaults, LargeBlocksNeedALaterDriver) {
  plan::KernelCode code = affine_kernel("wide", 2, 0);
  code.n_buffers = 600;
  set("DRIVER", "12000");
  const Status old = open()->create_kernels({&code, 1}).status();
  EXPECT_EQ(old.code(), Code::Unsupported);
  for (const char* part : {"kernel 'wide'", "CUDA 12.1", "update the NVIDIA driver"})
    EXPECT_NE(old.message().find(part), std::string::npos) << old.message();
  set("DRIVER", "12010");
  ASSERT_OK(open()->create_kernels({&code, 1}).status());
  code.n_buffers = 6000;
  EXPECT_EQ(open()->create_kernels({&code, 1}).status().code(), Code::Unsupported);
}

TEST_F(CudaFaults, RunningOutOfMemoryNamesTheBytes) {
  auto device = open();
  for (const auto& [use, symbol] : {std::pair{MemoryUse::Device, "cuMemAlloc_v2"},
                                    std::pair{MemoryUse::Upload, "cuMemHostAlloc"}}) {
    fail(symbol, 1, cuda::CUDA_ERROR_OUT_OF_MEMORY);
    const Status s = device->allocate(123456, use).status();
    EXPECT_EQ(s.code(), Code::OutOfMemory);
    EXPECT_NE(s.message().find("123456 bytes"), std::string::npos) << s.message();
    EXPECT_NE(s.message().find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos) << s.message();
  }
  set("FAIL", "");
  ASSERT_OK(device->allocate(123456, MemoryUse::Device).status());
  EXPECT_EQ(device->allocate(uint64_t{1} << 62, MemoryUse::Device).status().code(),
            Code::Unsupported);
}

/// A load, runs with other sizes, and a transfer.
Status whole_life(bool replay, bool timestamps) {
  RP_ASSIGN(auto made, cuda::open(0, {}));
  const std::shared_ptr<Device> device = std::move(made);
  SessionOptions options;
  options.timestamps = timestamps;
  options.replay = replay;
  RP_ASSIGN(auto s, Session::create(chain(2, 0, true), device, options));
  for (const int64_t n : {10, 0, 9}) RP_TRY(run_chain(*s, n, 2));
  RP_ASSIGN(auto b, device->allocate(64, MemoryUse::Device));
  std::array<std::byte, 64> bytes{};
  RP_TRY(device->upload(*b, 0, bytes));
  return device->download(*b, 0, bytes);
}

class CudaInjection : public CudaFaults {
 protected:
  /// What a call that failed became: an error that names it, or a success that is in the table.
  void expect_outcome(const std::string& symbol, const Status& s, uint64_t calls_without,
                      const std::string& where) {
    if (!s.ok()) {
      EXPECT_TRUE(is_device_failure(s.code())) << where << s.message();
      EXPECT_NE(s.message().find("cu"), std::string::npos) << where;
      EXPECT_NE(s.message().find("CUDA_ERROR_"), std::string::npos) << where;
      return;
    }
    const Swallowed* const row = may_be_swallowed(symbol);
    ASSERT_NE(row, nullptr) << where << "the failure was swallowed";
    if (row->again) {
      EXPECT_EQ(calls(symbol), calls_without + 1) << where << row->reason;
    }
  }

  /// Every call of `symbol` fails in turn, with `error`; how many there were.
  uint64_t check(const std::string& symbol, int error, bool replay, bool timestamps) {
    // How often a run is asked whether it has ended is a matter of time.
    const uint64_t most = symbol == "cuEventQuery" ? 5 : ~uint64_t{0};
    reset_calls();
    EXPECT_TRUE(whole_life(replay, timestamps).ok());
    const uint64_t calls_without = calls(symbol);
    for (uint64_t n = 1; n <= most; ++n) {
      const uint64_t live = stat("live"), leaks = stat("leaks");
      fail(symbol, n, error);
      const Status s = whole_life(replay, timestamps);
      const bool reached = calls(symbol) >= n;
      const std::string where = symbol + ", call " + std::to_string(n) + ": " + s.message();
      if (!reached) {
        set("FAIL", "");
        EXPECT_TRUE(s.ok()) << where;
        return n - 1;
      }
      expect_outcome(symbol, s, calls_without, where);
      set("FAIL", "");
      if (!keeps(symbol)) {
        EXPECT_EQ(stat("leaks"), leaks) << where;
        EXPECT_EQ(stat("live"), live) << where;
      }
      const Status next = whole_life(true, false);
      EXPECT_TRUE(next.ok()) << where << "; then " << next.message();
      if (HasFailure()) return n;
    }
    return most;
  }
};

TEST_F(CudaInjection, EveryCallFailingInTurnIsAnErrorWithoutALeak) {
  uint64_t injected = 0;
#define REPRISE_NAME_OF(symbol, parameters) #symbol,
  for (const std::string symbol :
       {REPRISE_CUDA_SYMBOLS(REPRISE_NAME_OF) REPRISE_CUDA_OPTIONAL_SYMBOLS(REPRISE_NAME_OF)}) {
    if (keeps(symbol)) continue;
    injected += check(symbol, cuda::CUDA_ERROR_OUT_OF_MEMORY, true, true);
    injected += check(symbol, cuda::CUDA_ERROR_LAUNCH_FAILED, false, false);
    if (HasFailure()) return;
  }
  EXPECT_GT(injected, 200U);
}

// In a process of its own: what the driver keeps would be in the way of other tests.
class CudaKept : public CudaInjection {};

TEST_F(CudaKept, DISABLED_CallsThatFree) {
  driver_keeps_some_ = true;
  for (const Swallowed& row : kSwallowed) {
    if (!keeps(row.symbol)) continue;
    EXPECT_GT(check(row.symbol, cuda::CUDA_ERROR_OUT_OF_MEMORY, true, true), 0U) << row.symbol;
    check(row.symbol, cuda::CUDA_ERROR_LAUNCH_FAILED, false, false);
  }
}

TEST_F(CudaInjection, CallsThatFreeMayFailWithoutHarm) {
  const ProcessResult r = run_process({"/proc/self/exe", "--gtest_filter=CudaKept.*",
                                       "--gtest_also_run_disabled_tests", "--gtest_output="});
  EXPECT_EQ(r.status, 0) << r.out << r.err;
  EXPECT_NE(r.out.find("[  PASSED  ] 1 test"), std::string::npos) << r.out;
}

}  // namespace
}  // namespace reprise::test
