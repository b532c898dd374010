// A Vulkan device as the runtime sees it.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "backends/vulkan/driver.h"
#include "backends/vulkan/kernels.h"
#include "backends/vulkan/memory.h"
#include "backends/vulkan/vulkan.h"
#include "runtime/device/backend.h"

namespace reprise::vulkan {

class VulkanDevice final : public Device {
 public:
  static Result<std::unique_ptr<VulkanDevice>> create(std::shared_ptr<Instance> instance,
                                                      PhysicalDevice physical,
                                                      const BackendOptions& options,
                                                      const TableHook& hook,
                                                      const DriverHook& driver_hook);

  const DeviceInfo& info() const override { return driver_->physical.info; }
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
  bool owns(const DeviceBuffer& buffer) const override;
  bool cuts_launches() const override { return true; }
  Counters counters() const override;
  Status check_image(const DeviceImage& image, ImageFormat format, bool written) const override;
  Status check_rows() const override { return {}; }
  bool ends_in_order() const override { return !driver_->overlaps_copies(); }

 private:
  VulkanDevice(std::shared_ptr<Driver> driver, const BackendOptions& options)
      : driver_(std::move(driver)), kernels_(driver_, options) {}
  /// Copies between buffers and waits.
  Status copy_now(const DeviceBuffer& src, uint64_t src_offset, DeviceBuffer& dst,
                  uint64_t dst_offset, uint64_t bytes);
  Status transfer_now(const Command& copy);
  /// Memory for a transfer, or for a part of a large one. No lock is held while the device copies,
  /// so each of several threads has its own. The largest is kept for the next transfer.
  Result<std::unique_ptr<VulkanBuffer>> take_staging(MemoryUse use, uint64_t bytes);
  void keep_staging(MemoryUse use, std::unique_ptr<VulkanBuffer> buffer);

  std::shared_ptr<Driver> driver_;
  Kernels kernels_;
  std::mutex staging_mutex_;
  std::unique_ptr<VulkanBuffer> for_uploads_, for_downloads_;
};

}  // namespace reprise::vulkan
