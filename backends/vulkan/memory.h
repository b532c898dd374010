// Device memory: a buffer with its own allocation and a device address.
#pragma once

#include <memory>
#include <optional>

#include "backends/vulkan/driver.h"
#include "runtime/backend.h"

namespace reprise::vulkan {

class VulkanBuffer final : public DeviceBuffer {
 public:
  static Result<std::unique_ptr<VulkanBuffer>> create(std::shared_ptr<Driver> driver,
                                                      uint64_t bytes, MemoryUse use);
  /// Borrows a buffer of the application. Neither it nor its memory is freed here.
  static Result<std::unique_ptr<VulkanBuffer>> borrow(std::shared_ptr<Driver> driver, void* handle,
                                                      uint64_t bytes);
  ~VulkanBuffer() override;
  VkBuffer handle() const { return handle_; }
  bool belongs_to(const Driver& driver) const { return driver_.get() == &driver; }

 private:
  explicit VulkanBuffer(std::shared_ptr<Driver> driver) : driver_(std::move(driver)) {}
  Status make_buffer(uint64_t bytes);
  Status make_memory(MemoryUse use);
  Status choose_type(MemoryUse use, const VkMemoryRequirements& needs, uint32_t& type);
  VkResult try_type(uint32_t type, uint64_t bytes);
  bool try_lender(uint32_t type, const VkMemoryRequirements& needs, MemoryUse use);
  Status bind_lent();
  Status finish();

  std::shared_ptr<Driver> driver_;
  OwnedMemory memory_;              // destroyed after the buffer that it backs
  std::optional<LentMemory> lent_;  // instead of it
  OwnedBuffer buffer_;
  VkBuffer handle_ = VK_NULL_HANDLE;
  uint32_t heap_ = 0;
  uint64_t charged_ = 0;  // bytes counted in Driver::heap_bytes
};

}  // namespace reprise::vulkan
