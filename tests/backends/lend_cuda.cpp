// An application that already has a CUDA context and stream.
#include "backends/cuda/library.h"
#include "contract.h"
#include "lend.h"

namespace reprise::test {
namespace {

struct CudaApplication {
  std::shared_ptr<const cuda::Library> library;
  cuda::CUdevice device = 0;
  cuda::CUcontext context = nullptr;
  cuda::CUstream stream = nullptr;
  cuda::CUdeviceptr memory = 0;

  const cuda::Table& fn() const { return library->fn(); }

  explicit CudaApplication(size_t index) : library(*cuda::Library::open(cuda::kDriverLibrary, {})) {
    EXPECT_EQ(fn().cuDeviceGet(&device, static_cast<int>(index)), cuda::CUDA_SUCCESS);
    EXPECT_EQ(fn().cuDevicePrimaryCtxRetain(&context, device), cuda::CUDA_SUCCESS);
    EXPECT_EQ(fn().cuCtxPushCurrent_v2(context), cuda::CUDA_SUCCESS);
    EXPECT_EQ(fn().cuStreamCreate(&stream, cuda::CU_STREAM_NON_BLOCKING), cuda::CUDA_SUCCESS);
    EXPECT_EQ(fn().cuMemAlloc_v2(&memory, 400), cuda::CUDA_SUCCESS);
  }
  bool allocate(LentMemory& m) const {
    if (m.use == MemoryUse::Device) {
      cuda::CUdeviceptr made = 0;
      const bool done = fn().cuMemAlloc_v2(&made, m.bytes) == cuda::CUDA_SUCCESS;
      m.handle = made;
      return done;
    }
    constexpr unsigned kFlags = cuda::CU_MEMHOSTALLOC_PORTABLE | cuda::CU_MEMHOSTALLOC_DEVICEMAP;
    if (fn().cuMemHostAlloc(&m.mapped, m.bytes, kFlags) != cuda::CUDA_SUCCESS) return false;
    m.handle = reinterpret_cast<uint64_t>(m.mapped);
    return true;
  }
  void release(const LentMemory& m) const {
    if (m.use == MemoryUse::Device) {
      EXPECT_EQ(fn().cuMemFree_v2(m.handle), cuda::CUDA_SUCCESS);
    } else {
      EXPECT_EQ(fn().cuMemFreeHost(m.mapped), cuda::CUDA_SUCCESS);
    }
  }
  bool works() const {
    float value = 0;
    return fn().cuMemcpyDtoHAsync_v2(&value, memory, sizeof(value), stream) == cuda::CUDA_SUCCESS &&
           fn().cuStreamSynchronize(stream) == cuda::CUDA_SUCCESS;
  }
  CudaApplication(const CudaApplication&) = delete;
  CudaApplication& operator=(const CudaApplication&) = delete;
  ~CudaApplication() {
    EXPECT_EQ(fn().cuMemFree_v2(memory), cuda::CUDA_SUCCESS);
    EXPECT_EQ(fn().cuStreamDestroy_v2(stream), cuda::CUDA_SUCCESS);
    cuda::CUcontext popped = nullptr;
    EXPECT_EQ(fn().cuCtxPopCurrent_v2(&popped), cuda::CUDA_SUCCESS);
    EXPECT_EQ(popped, context) << "the current context was changed";
    EXPECT_EQ(fn().cuDevicePrimaryCtxRelease_v2(device), cuda::CUDA_SUCCESS);
  }
};

}  // namespace

Lender lend_cuda(size_t index) {
  auto app = std::make_shared<CudaApplication>(index);
  Lender l;
  l.options.cuda = {app->context, app->stream};
  l.memory = reinterpret_cast<void*>(app->memory);
  l.unharmed = [state = app.get()] { return state->works(); };
  l.allocate = [state = app.get()](LentMemory& m) { return state->allocate(m); };
  l.release = [state = app.get()](const LentMemory& m) { state->release(m); };
  l.keep = app;
  return l;
}

}  // namespace reprise::test
