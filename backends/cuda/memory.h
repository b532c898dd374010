// Device memory, and host memory that the device can access.
#pragma once

#include <memory>
#include <optional>

#include "backends/cuda/driver.h"
#include "runtime/device/backend.h"

namespace reprise::cuda {

class CudaBuffer final : public DeviceBuffer {
 public:
  static Result<std::unique_ptr<CudaBuffer>> create(const std::shared_ptr<Driver>& driver,
                                                    uint64_t bytes, MemoryUse use);
  /// Borrows a CUdeviceptr of the application, which is never freed here.
  static Result<std::unique_ptr<CudaBuffer>> borrow(std::shared_ptr<Driver> driver, void* handle,
                                                    uint64_t bytes);
  static Result<std::unique_ptr<CudaBuffer>> import(const std::shared_ptr<Driver>& driver,
                                                    const ExternalMemory& memory);
  ~CudaBuffer() override;
  bool belongs_to(const Driver& driver) const { return driver_.get() == &driver; }

 private:
  explicit CudaBuffer(std::shared_ptr<Driver> driver) : driver_(std::move(driver)) {}
  Status make_device_memory();
  Status make_host_memory();
  Status make_lent(MemoryUse use);
  Status find_address(void* host);

  std::shared_ptr<Driver> driver_;
  OwnedExternalMemory external_;  // released after the memory that is mapped from it
  OwnedMemory memory_;
  OwnedHostMemory host_memory_;
  std::optional<LentMemory> lent_;  // instead of these
};

}  // namespace reprise::cuda
