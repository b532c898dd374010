// Buffers in memory that another API exported. Shared memory stands for it with the stand-in
// driver.
#include <sys/mman.h>
#include <unistd.h>

#include "backends/cuda/api.h"
#include "on_standin.h"
#include "reprise/reprise.h"
#include "tests/support/process.h"

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
  const size_t before = open_files();
  ExternalMemory odd = other.memory(4, 400), dma = other.memory(0, 400);
  dma.kind = ExternalMemory::Kind::DmaBuf;
  ExternalMemory none = other.memory(0, 400);
  none.handle = ~uint64_t{0};
  const auto expect = [&](const ExternalMemory& m, Code code, const char* message) {
    const Status s = device->import(m).status();
    EXPECT_EQ(s.code(), code) << s.message();
    EXPECT_NE(s.message().find(message), std::string::npos) << s.message();
    EXPECT_EQ(open_files(), before) << message;
  };
  expect(odd, Code::Usage, "no multiple of 16");
  expect(dma, Code::Unsupported, "NT handles only");
  expect(none, Code::Usage, "no file descriptor");
  // Real drivers refuse a handle with an error that otherwise means a broken context.
  for (const char* symbol : {"cuImportExternalMemory", "cuExternalMemoryGetMappedBuffer"}) {
    for (const int error : {cuda::CUDA_ERROR_UNKNOWN, cuda::CUDA_ERROR_INVALID_VALUE}) {
      fail(symbol, 1, error);
      expect(other.memory(0, 400), Code::Usage, symbol);
    }
    fail(symbol, 1, cuda::CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(device->import(other.memory(0, 400)).status().code(), Code::OutOfMemory);
    EXPECT_EQ(open_files(), before);
  }
  ASSERT_OK(device->import(other.memory(0, 400)).status());
  EXPECT_EQ(open_files(), before);
}

TEST_F(CudaExternalMemory, TheCInterfaceChecksItsArguments) {
  const SharedMemory other;
  reprise_error error{};
  reprise_device *device = nullptr, *host = nullptr;
  ASSERT_EQ(reprise_device_open("cuda:0", nullptr, &device, &error), REPRISE_OK) << error.message;
  ASSERT_EQ(reprise_device_open("host", nullptr, &host, &error), REPRISE_OK) << error.message;
  reprise_external_memory m = REPRISE_EXTERNAL_MEMORY_INIT;
  m.handle = other.memory(0, 400).handle;
  m.size = kBytes;
  m.bytes = 400;
  reprise_buffer* buffer = nullptr;
  EXPECT_EQ(reprise_buffer_import(host, &m, &buffer, &error), REPRISE_USAGE);
  EXPECT_EQ(reprise_buffer_import(device, nullptr, &buffer, &error), REPRISE_USAGE);
  const auto expect = [&](const char* message, auto&& mistake) {
    reprise_external_memory wrong = m;
    mistake(wrong);
    EXPECT_EQ(reprise_buffer_import(device, &wrong, &buffer, &error), REPRISE_USAGE);
    EXPECT_NE(std::string(error.message).find(message), std::string::npos) << error.message;
  };
  expect("`kind` 9", [](auto& w) { w.kind = static_cast<reprise_external_kind>(9); });
  expect("`memory_type` -2", [](auto& w) { w.memory_type = -2; });
  expect("are no part of memory", [](auto& w) { w.bytes = 0; });
  expect("are no part of memory", [](auto& w) { w.offset = kBytes + 1; });
  expect("are no part of memory", [](auto& w) {
    w.offset = 16;
    w.bytes = ~uint64_t{0};
  });
  expect("`handle` is null", [](auto& w) {
    w.kind = REPRISE_EXTERNAL_OPAQUE_WIN32;
    w.handle = 0;
  });
  expect("struct_size", [](auto& w) { w.struct_size = 0; });
  ASSERT_EQ(reprise_buffer_import(device, &m, &buffer, &error), REPRISE_OK) << error.message;
  const float sent = 5;
  ASSERT_EQ(reprise_buffer_write(buffer, 8, &sent, 4, &error), REPRISE_OK) << error.message;
  EXPECT_EQ(other.floats()[2], 5);
  reprise_buffer_free(buffer);
  reprise_device_free(device);
  reprise_device_free(host);
}

}  // namespace
}  // namespace reprise::test
