// What an application lends: pointers are looked at before kernels use them, and every stream
// works.
#include <array>
#include <cstring>

#include "backends/cuda/library.h"
#include "on_standin.h"

namespace reprise::test {
namespace {

/// A context of the application with 1,024 bytes of device memory.
class CudaBorrow : public OnStandin {
 protected:
  void SetUp() override {
    OnStandin::SetUp();
    if (IsSkipped()) return;
    set("DEVICES", "2");
    library_ = *cuda::Library::open(cuda::kDriverLibrary, {});
    ASSERT_EQ(fn().cuDevicePrimaryCtxRetain(&context_, 0), cuda::CUDA_SUCCESS);
    ASSERT_EQ(fn().cuCtxPushCurrent_v2(context_), cuda::CUDA_SUCCESS);
    ASSERT_EQ(fn().cuMemAlloc_v2(&memory_, 1024), cuda::CUDA_SUCCESS);
  }
  void TearDown() override {
    if (!IsSkipped()) {
      EXPECT_EQ(fn().cuMemFree_v2(memory_), cuda::CUDA_SUCCESS);
      EXPECT_EQ(fn().cuCtxPopCurrent_v2(&context_), cuda::CUDA_SUCCESS);
      EXPECT_EQ(fn().cuDevicePrimaryCtxRelease_v2(0), cuda::CUDA_SUCCESS);
    }
    OnStandin::TearDown();
  }
  const cuda::Table& fn() const { return library_->fn(); }
  BackendOptions lent(uintptr_t stream = 0) const {
    BackendOptions options;
    options.cuda = {context_, reinterpret_cast<void*>(stream)};
    return options;
  }
  /// Empty: it was accepted.
  static std::string refusal(Device& device, uint64_t address, uint64_t bytes) {
    const Status s = device.borrow(reinterpret_cast<void*>(address), bytes).status();
    EXPECT_TRUE(s.ok() || s.code() == Code::Usage) << s.message();
    return s.message();
  }
  static void expect_part(const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' in: " << message;
  }

  std::shared_ptr<const cuda::Library> library_;
  cuda::CUcontext context_ = nullptr;
  cuda::CUdeviceptr memory_ = 0;
};

TEST_F(CudaBorrow, PointersAreOfTheDeviceAndHaveRoom) {
  auto device = open(0, lent());
  EXPECT_EQ(refusal(*device, memory_, 1024), "");
  EXPECT_EQ(refusal(*device, memory_ + 512, 512), "");
  expect_part(refusal(*device, memory_, 1025),
              "of 1025 bytes leaves its allocation, which has 1024");
  expect_part(refusal(*device, memory_ + 512, 513), "which has 512 bytes");
  expect_part(refusal(*device, memory_ + 1024, 16), "is not device or managed memory");
  alignas(16) std::array<std::byte, 64> own{};
  expect_part(refusal(*device, reinterpret_cast<uint64_t>(own.data()), 64), "is not device");
  void* pinned = nullptr;
  ASSERT_EQ(fn().cuMemHostAlloc(&pinned, 64, 0), cuda::CUDA_SUCCESS);
  expect_part(refusal(*device, reinterpret_cast<uint64_t>(pinned), 64), "is not device");
  EXPECT_EQ(fn().cuMemFreeHost(pinned), cuda::CUDA_SUCCESS);
  auto second = cuda::open(1, {});
  ASSERT_OK(second.status());
  expect_part(refusal(**second, memory_, 1024), "is memory of another device than cuda:1");
}

cuda::CUresult (*real_attributes)(unsigned, cuda::CUpointer_attribute*, void**,
                                  cuda::CUdeviceptr) = nullptr;
cuda::CUresult (*real_range)(cuda::CUdeviceptr*, size_t*, cuda::CUdeviceptr) = nullptr;
constexpr uint64_t kPiece = 256;

/// Every allocation as if it were a range of addresses with memory mapped to it in pieces, which
/// belong to no context; to the last quarter of the range none is.
cuda::CUresult attributes_of_mapped(unsigned n, cuda::CUpointer_attribute* attributes,
                                    void** values, cuda::CUdeviceptr pointer) {
  const cuda::CUresult r = real_attributes(n, attributes, values, pointer);
  for (unsigned i = 0; i < n; ++i)
    if (attributes[i] == cuda::CU_POINTER_ATTRIBUTE_CONTEXT) std::memset(values[i], 0, 8);
  return r;
}

cuda::CUresult range_of_piece(cuda::CUdeviceptr* base, size_t* bytes, cuda::CUdeviceptr pointer) {
  const cuda::CUresult r = real_range(base, bytes, pointer);
  if (r != cuda::CUDA_SUCCESS) return r;
  const uint64_t piece = (pointer - *base) / kPiece;
  if (piece >= *bytes / kPiece * 3 / 4) return cuda::CUDA_ERROR_NOT_FOUND;
  *base += piece * kPiece;
  *bytes = kPiece;
  return r;
}

TEST_F(CudaBorrow, MemoryMappedInPiecesIsOneRangeAsFarAsItGoes) {
  const auto hook = [](cuda::Table& t) {
    real_attributes = t.cuPointerGetAttributes;
    real_range = t.cuMemGetAddressRange_v2;
    t.cuPointerGetAttributes = attributes_of_mapped;
    t.cuMemGetAddressRange_v2 = range_of_piece;
  };
  auto device = cuda::open(0, lent(), cuda::kDriverLibrary, hook);
  ASSERT_OK(device.status());
  EXPECT_EQ(refusal(**device, memory_, 768), "");
  EXPECT_EQ(refusal(**device, memory_ + 16, 752), "");
  expect_part(refusal(**device, memory_ + 16, 753), "has 752 bytes from there on");
  expect_part(refusal(**device, memory_, 1024), "has 768 bytes from there on");
  expect_part(refusal(**device, memory_ + 768, 16), "has no memory");
}

TEST_F(CudaBorrow, AnotherFailureOfTheDriverIsItsOwn) {
  auto device = open(0, lent());
  for (const char* symbol : {"cuPointerGetAttributes", "cuMemGetAddressRange_v2"}) {
    reset_calls();
    set("FAIL", std::string(symbol) + ":1:" + std::to_string(cuda::CUDA_ERROR_OUT_OF_MEMORY));
    const Status s = device->borrow(reinterpret_cast<void*>(memory_), 16).status();
    EXPECT_EQ(s.code(), Code::OutOfMemory) << symbol;
    expect_part(s.message(), "CUDA_ERROR_OUT_OF_MEMORY");
    set("FAIL", "");
  }
}

TEST_F(CudaBorrow, TheDefaultStreamHasNames) {
  for (const uintptr_t stream : {cuda::CU_STREAM_LEGACY, cuda::CU_STREAM_PER_THREAD}) {
    const uint64_t streams = calls("cuStreamCreate");
    auto device = open(0, lent(stream));
    auto s = session(chain(2, 100, false), device);
    ASSERT_TRUE(s);
    for (int run = 0; run < 2; ++run) ASSERT_OK(run_chain(*s, 100, 2));
    EXPECT_EQ(calls("cuStreamCreate"), streams);
  }
  const uint64_t streams = calls("cuStreamCreate");
  auto device = open(0, lent());
  EXPECT_GT(calls("cuStreamCreate"), streams);
}

}  // namespace
}  // namespace reprise::test
