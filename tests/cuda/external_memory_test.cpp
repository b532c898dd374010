// Buffers in memory that another API exported. Shared memory stands for it with the stand-in
// driver.
#include <sys/mman.h>
#include <unistd.h>

#include "on_standin.h"

namespace reprise::test {
namespace {

constexpr uint64_t kBytes = 64 << 10;

class SharedMemory {
 public:
  SharedMemory() : descriptor_(::memfd_create("exported", MFD_CLOEXEC)) {
    EXPECT_EQ(::ftruncate(descriptor_, kBytes), 0);
    mapped_ = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    EXPECT_NE(mapped_, MAP_FAILED);
  }
  ~SharedMemory() {
    ::munmap(mapped_, kBytes);
    ::close(descriptor_);
  }
  float* floats() const { return static_cast<float*>(mapped_); }
  ExternalMemory memory(uint64_t offset, uint64_t bytes) const {
    ExternalMemory m;
    m.handle = static_cast<uint64_t>(descriptor_);
    m.allocation = kBytes;
    m.offset = offset;
    m.bytes = bytes;
    return m;
  }

 private:
  int descriptor_;
  void* mapped_ = nullptr;
};

class CudaExternalMemory : public OnStandin {};

TEST_F(CudaExternalMemory, RunsUseItInPlace) {
  auto device = open();
  const SharedMemory other;
  auto x = device->import(other.memory(0, 400));
  ASSERT_OK(x.status());
  auto y = device->import(other.memory(4096, 400));
  ASSERT_OK(y.status());
  auto s = session(chain(2, 100, false), device);
  ASSERT_TRUE(s);
  for (size_t i = 0; i < 100; ++i) other.floats()[i] = static_cast<float>(i);
  ASSERT_OK(s->run({{{.name = "x", .device = x->get(), .dims = {100}}}},
                   {{{.name = "y", .device = y->get()}}})
                .status());
  for (size_t i = 0; i < 100; ++i) ASSERT_EQ(other.floats()[1024 + i], static_cast<float>(i) + 2);
}

TEST_F(CudaExternalMemory, MistakesAreNamed) {
  auto device = open();
  const SharedMemory other;
  ExternalMemory odd = other.memory(4, 400), dma = other.memory(0, 400);
  dma.kind = ExternalMemory::Kind::DmaBuf;
  ExternalMemory none = other.memory(0, 400);
  none.handle = ~uint64_t{0};
  EXPECT_EQ(device->import(odd).status().code(), Code::Usage);
  EXPECT_EQ(device->import(dma).status().code(), Code::Unsupported);
  EXPECT_EQ(device->import(none).status().code(), Code::Usage);
  ASSERT_OK(device->import(other.memory(0, 400)).status());
}

}  // namespace
}  // namespace reprise::test
