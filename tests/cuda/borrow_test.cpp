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
constexpr uint64_t kPiece = 256;

/// Every allocation as if it were mapped in pieces, which belong to no context.
cuda::CUresult attributes_of_pieces(unsigned n, cuda::CUpointer_attribute* attributes,
                                    void** values, cuda::CUdeviceptr pointer) {
  const cuda::CUresult r = real_attributes(n, attributes, values, pointer);
  uint64_t begin = 0, bytes = 0;
  for (unsigned i = 0; i < n; ++i) {
    if (attributes[i] == cuda::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
      std::memcpy(&begin, values[i], sizeof(begin));
    if (attributes[i] == cuda::CU_POINTER_ATTRIBUTE_CONTEXT) std::memset(values[i], 0, 8);
  }
  if (begin == 0) return r;
  begin += (pointer - begin) / kPiece * kPiece;
  bytes = kPiece;
  for (unsigned i = 0; i < n; ++i) {
    if (attributes[i] == cuda::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
      std::memcpy(values[i], &begin, sizeof(begin));
    if (attributes[i] == cuda::CU_POINTER_ATTRIBUTE_RANGE_SIZE)
      std::memcpy(values[i], &bytes, sizeof(bytes));
  }
  return r;
}

TEST_F(CudaBorrow, MemoryMappedInPiecesIsOneRange) {
  const auto hook = [](cuda::Table& t) {
    real_attributes = t.cuPointerGetAttributes;
    t.cuPointerGetAttributes = attributes_of_pieces;
  };
  auto device = cuda::open(0, lent(), cuda::kDriverLibrary, hook);
  ASSERT_OK(device.status());
  EXPECT_EQ(refusal(**device, memory_, 1024), "");
  EXPECT_EQ(refusal(**device, memory_ + 16, 1008), "");
  expect_part(refusal(**device, memory_ + 16, 1009), "has 1008 bytes from there on");
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
