// Descriptors, for devices without buffer addresses: layouts of kernels, what the dispatches of a
// recording bind, and the sets that bind it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/vulkan/driver.h"
#include "runtime/device/backend.h"

namespace reprise::vulkan {

/// The bindings of a kernel: the parameter block, and storage buffers.
struct BindingLayout {
  std::vector<uint32_t> storage;  // binding numbers, ascending
  OwnedSetLayout set;
  OwnedPipelineLayout pipeline;
};

/// The layouts of a device. Kernels with the same bindings share one. Thread-safe.
class BindingLayouts {
 public:
  Result<std::shared_ptr<const BindingLayout>> of(const std::shared_ptr<Driver>& driver,
                                                  const std::vector<uint32_t>& storage);

 private:
  std::mutex mutex_;
  std::map<std::vector<uint32_t>, std::shared_ptr<const BindingLayout>> known_;
};

/// The memory that the dispatches of a recording bind, as their parameter blocks say. Blocks name
/// memory by addresses of Driver::addresses.
///
/// A binding begins where its memory begins, so another place in the same memory changes a number
/// in the block and no descriptor. Only memory that is larger than a descriptor can be is bound
/// from near the place on.
class BoundMemory {
 public:
  BoundMemory(std::shared_ptr<Driver> driver, const RecordingDesc& desc);
  /// Reads the blocks. They must not change until the commands were executed. `changed` tells
  /// whether any dispatch binds other memory than after the last read().
  Status read(bool& changed);

  struct Dispatch {
    std::shared_ptr<const BindingLayout> layout;
    uint64_t block = 0;        // offset of the block
    uint32_t block_bytes = 0;  // size of the block
    size_t first = 0;          // of its storage bindings in memory()
    bool changed = true;       // by the last read()
  };
  const std::vector<Dispatch>& dispatches() const { return dispatches_; }
  const std::vector<VkDescriptorBufferInfo>& memory() const { return memory_; }
  /// Numbers that differ if the memory differs, parallel to memory().
  const std::vector<uint64_t>& keys() const { return keys_; }
  VkBuffer blocks() const;

 private:
  Status read(Dispatch& d);
  uint64_t address_of(const Dispatch& d, size_t binding) const;
  Status bind(const Dispatch& d, size_t binding, uint64_t address, bool near);

  std::shared_ptr<Driver> driver_;
  const DeviceBuffer* blocks_;
  const uint64_t* version_;
  uint64_t seen_ = 0;
  bool read_once_ = false;
  std::vector<Dispatch> dispatches_;
  std::vector<VkDescriptorBufferInfo> memory_;
  std::vector<uint64_t> keys_;
  std::vector<uint64_t> sizes_;  // of the whole memory, parallel to memory_
};

/// A descriptor set for each dispatch of a recording.
class DescriptorSets {
 public:
  static Result<DescriptorSets> create(const std::shared_ptr<Driver>& driver,
                                       const BoundMemory& bound);
  /// Writes the sets of all dispatches, or of those that the last read() changed. No set may be in
  /// use, and without update-after-bind none may have been bound.
  void write(const BoundMemory& bound, bool only_changed);
  VkDescriptorSet of(size_t dispatch) const { return sets_[dispatch]; }

 private:
  explicit DescriptorSets(std::shared_ptr<Driver> driver) : driver_(std::move(driver)) {}
  std::shared_ptr<Driver> driver_;
  OwnedDescriptorPool pool_;
  std::vector<VkDescriptorSet> sets_;
  std::vector<VkWriteDescriptorSet> writes_;
  std::vector<VkDescriptorBufferInfo> blocks_;
};

}  // namespace reprise::vulkan
