// A CUDA device as the runtime sees it.
#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/driver.h"
#include "runtime/device/backend.h"

namespace reprise::cuda {

class CudaDevice final : public Device {
 public:
  /// Opens the device's primary context, or the application's context if the options lend one.
  static Result<std::unique_ptr<CudaDevice>> create(std::shared_ptr<const Library> library,
                                                    size_t index, const BackendOptions& options);

  const DeviceInfo& info() const override { return driver_->info; }
  bool takes_edges() const override { return true; }
  Result<std::unique_ptr<DeviceBuffer>> allocate(uint64_t bytes, MemoryUse use) override;
  Result<std::unique_ptr<DeviceBuffer>> borrow(void* handle, uint64_t bytes) override;
  Result<std::unique_ptr<DeviceBuffer>> import(const ExternalMemory& memory) override;
  Result<std::vector<std::unique_ptr<DeviceKernel>>> create_kernels(
      std::span<const plan::KernelCode> code) override;
  Result<std::unique_ptr<Recording>> record(RecordingDesc desc) override;
  Result<std::shared_ptr<void>> record_into(void* command_buffer,
                                            const RecordingDesc& desc) override;
  Status upload(DeviceBuffer& dst, uint64_t offset, std::span<const std::byte> bytes) override;
  Status download(const DeviceBuffer& src, uint64_t offset, std::span<std::byte> bytes) override;
  Status write_view(const plan::BoundView& view,
                    std::span<std::byte, plan::BlockLayout::kViewBytes> to) const override;
  bool owns(const DeviceBuffer& buffer) const override;
  Counters counters() const override;

 private:
  CudaDevice(std::shared_ptr<Driver> driver, Threads threads)
      : driver_(std::move(driver)), threads_(std::move(threads)) {}

  std::shared_ptr<Driver> driver_;
  Threads threads_;
};

}  // namespace reprise::cuda
