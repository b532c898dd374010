// What fails, fails clearly, leaves nothing behind, and harms nobody else.
#include "backends/cuda/api.h"
#include "on_standin.h"

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
    EXPECT_EQ(fault.code(), Code::Device);
    for (const char* part : {"CUDA_ERROR_ILLEGAL_ADDRESS", "cuda:0", "open it again"})
      EXPECT_NE(fault.message().find(part), std::string::npos) << fault.message();
    const Status others[] = {run_chain(*bad, 100, 2), run_chain(*good, 100, 3),
                             device->allocate(64, MemoryUse::Device).status(),
                             Session::create(chain(1, 4, false), device).status()};
    for (const Status& s : others) {
      EXPECT_EQ(s.code(), Code::Device);
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
               {cuda::CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "libnvidia-ptxjitcompiler"}};
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

TEST_F(CudaFaults, RunningOutOfMemoryNamesTheBytes) {
  auto device = open();
  for (const auto& [use, symbol] : {std::pair{MemoryUse::Device, "cuMemAlloc_v2"},
                                    std::pair{MemoryUse::Upload, "cuMemHostAlloc"}}) {
    fail(symbol, 1, cuda::CUDA_ERROR_OUT_OF_MEMORY);
    const Status s = device->allocate(123456, use).status();
    EXPECT_EQ(s.code(), Code::Device);
    EXPECT_NE(s.message().find("123456 bytes"), std::string::npos) << s.message();
    EXPECT_NE(s.message().find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos) << s.message();
  }
  set("FAIL", "");
  ASSERT_OK(device->allocate(123456, MemoryUse::Device).status());
  EXPECT_EQ(device->allocate(uint64_t{1} << 62, MemoryUse::Device).status().code(),
            Code::Unsupported);
}

/// A load, runs with other sizes and other memory, and a run without a graph.
Status whole_life(bool timestamps) {
  RP_ASSIGN(auto made, cuda::open(0, {}));
  const std::shared_ptr<Device> device = std::move(made);
  for (const bool replay : {true, false}) {
    SessionOptions options;
    options.timestamps = timestamps;
    options.replay = replay;
    RP_ASSIGN(auto s, Session::create(chain(2, 0, true), device, options));
    for (const int64_t n : {10, 0, 1000, 10}) RP_TRY(run_chain(*s, n, 2));
    RP_ASSIGN(auto b, device->allocate(64, MemoryUse::Device));
    std::array<std::byte, 64> bytes{};
    RP_TRY(device->upload(*b, 0, bytes));
    RP_TRY(device->download(*b, 0, bytes));
  }
  return {};
}

TEST_F(CudaFaults, EveryCallFailingInTurnIsAnErrorWithoutALeak) {
  for (const int error : {cuda::CUDA_ERROR_OUT_OF_MEMORY, cuda::CUDA_ERROR_LAUNCH_FAILED}) {
    for (const bool timestamps : {false, true}) {
      uint64_t silent = 0;
      for (uint64_t n = 1;; ++n) {
        fail("*", n, error);
        const uint64_t leaks = stat("leaks");
        const Status s = whole_life(timestamps);
        const bool reached = stat("calls") >= n;
        set("FAIL", "");
        if (!reached) {
          ASSERT_OK(s);
          EXPECT_GT(n, 100U);
          break;
        }
        if (s.ok()) ++silent;
        if (!s.ok()) {
          EXPECT_EQ(s.code(), Code::Device) << n << ": " << s.message();
          EXPECT_NE(s.message().find("cu"), std::string::npos) << s.message();
        }
        EXPECT_EQ(stat("leaks"), leaks) << "after failing call " << n << ": " << s.message();
        EXPECT_EQ(stat("live"), 0U) << "after failing call " << n << ": " << s.message();
        ASSERT_OK(whole_life(false));
      }
      EXPECT_LT(silent, 100U);
    }
  }
}

}  // namespace
}  // namespace reprise::test
