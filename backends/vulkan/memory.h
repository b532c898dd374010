// Device memory: a buffer with its own allocation and a device address.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "backends/vulkan/driver.h"
#include "runtime/device/backend.h"

namespace reprise::vulkan {

/// Whether the host can read memory with these properties fast. Only such memory of the device is
/// offered as mapped, because write-combined memory is slow to read.
bool is_cached(VkMemoryPropertyFlags flags);

class VulkanBuffer final : public DeviceBuffer {
 public:
  static Result<std::unique_ptr<VulkanBuffer>> create(std::shared_ptr<Driver> driver,
                                                      uint64_t bytes, MemoryUse use);
  /// Borrows a buffer of the application. Neither it nor its memory is freed here.
  static Result<std::unique_ptr<VulkanBuffer>> borrow(std::shared_ptr<Driver> driver, void* handle,
                                                      uint64_t bytes);
  /// external_memory.cpp
  static Result<std::unique_ptr<VulkanBuffer>> import(const std::shared_ptr<Driver>& driver,
                                                      const ExternalMemory& memory);
  ~VulkanBuffer() override;
  VkBuffer handle() const { return handle_; }
  bool belongs_to(const Driver& driver) const { return driver_.get() == &driver; }
  /// Whether queues of both families may use it. Buffers of the application belong to one.
  bool is_shared() const { return shared_ || families_[0] == families_[1]; }

 private:
  explicit VulkanBuffer(std::shared_ptr<Driver> driver)
      : driver_(std::move(driver)),
        families_{driver_->queue_family, driver_->physical.queues.transfer} {}
  VkBufferCreateInfo describe(uint64_t bytes) const;
  Status make_buffer(const VkBufferCreateInfo& info);
  Status map(uint64_t offset, uint64_t bytes);
  Status import_memory(const ExternalMemory& from, const VkMemoryRequirements& needs);
  Status make_memory(MemoryUse use);
  Status choose_type(MemoryUse use, const VkMemoryRequirements& needs, uint32_t& type);
  VkResult try_type(uint32_t type, uint64_t bytes);
  bool try_lender(uint32_t type, const VkMemoryRequirements& needs, MemoryUse use);
  Status bind_lent();
  Status finish();

  std::shared_ptr<Driver> driver_;
  std::array<uint32_t, 2> families_;  // whose queues use the buffer
  OwnedMemory memory_;                // destroyed after the buffer that it backs
  std::optional<LentMemory> lent_;    // instead of it
  OwnedBuffer buffer_;
  VkBuffer handle_ = VK_NULL_HANDLE;
  bool shared_ = true;
  uint32_t heap_ = 0;
  uint64_t charged_ = 0;  // bytes counted in Driver::heap_bytes
};

/// The same of a buffer of this backend.
inline bool is_shared(const DeviceBuffer& b) {
  return static_cast<const VulkanBuffer&>(b).is_shared();
}

}  // namespace reprise::vulkan
