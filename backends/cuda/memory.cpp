#include "backends/cuda/memory.h"

#include <algorithm>

namespace reprise::cuda {
namespace {

constexpr uint64_t kAlignment = 16;  // that kernels rely on

}  // namespace

Status CudaBuffer::make_device_memory() {
  CUdeviceptr address = 0;
  RP_TRY(driver_->check(driver_->fn().cuMemAlloc_v2(&address, size_), "cuMemAlloc"));
  memory_ = {driver_, address};
  address_ = address;
  return {};
}

Status CudaBuffer::make_host_memory() {
  void* pointer = nullptr;
  RP_TRY(driver_->check(driver_->fn().cuMemHostAlloc(
                            &pointer, size_, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                        "cuMemHostAlloc"));
  host_memory_ = {driver_, pointer};
  mapped_ = pointer;
  CUdeviceptr address = 0;
  RP_TRY(driver_->check(driver_->fn().cuMemHostGetDevicePointer_v2(&address, pointer, 0),
                        "cuMemHostGetDevicePointer"));
  address_ = address;
  return {};
}

Result<std::unique_ptr<CudaBuffer>> CudaBuffer::create(const std::shared_ptr<Driver>& driver,
                                                       uint64_t bytes, MemoryUse use) {
  RP_TRY(driver->alive());
  const uint64_t limit = driver->info.facts.max_buffer_bytes;
  if (bytes > limit) {
    return unsupported("a buffer of " + std::to_string(bytes) + " bytes is over the memory of " +
                       driver->info.id + ", " + std::to_string(limit) + " bytes");
  }
  RP_CUDA_SCOPE(*driver);
  std::unique_ptr<CudaBuffer> b(new CudaBuffer(driver));
  b->size_ = std::max<uint64_t>(bytes, kAlignment);
  const Status made = use == MemoryUse::Device ? b->make_device_memory() : b->make_host_memory();
  RP_TRY(made.with_context("allocating " + std::to_string(b->size_) + " bytes"));
  ++driver->counters.allocations;
  return b;
}

Result<std::unique_ptr<CudaBuffer>> CudaBuffer::borrow(std::shared_ptr<Driver> driver, void* handle,
                                                       uint64_t bytes) {
  RP_TRY(driver->alive());
  const auto address = reinterpret_cast<uint64_t>(handle);
  if (address == 0) return Status(Code::Usage, "a borrowed buffer needs its CUdeviceptr");
  if (address % kAlignment != 0) {
    return Status(Code::Usage, "a borrowed CUdeviceptr must be a multiple of " +
                                   std::to_string(kAlignment) + "; the one given is not");
  }
  std::unique_ptr<CudaBuffer> b(new CudaBuffer(std::move(driver)));
  b->size_ = bytes;
  b->address_ = address;
  return b;
}

}  // namespace reprise::cuda
