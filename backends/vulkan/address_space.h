// Numbers that stand for memory on devices without buffer addresses. Sessions write them to
// parameter blocks as if they were addresses, and recordings look them up to bind descriptors.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "backends/vulkan/api.h"

namespace reprise::vulkan {

/// The upper half of a number names a buffer and is never used again; the lower half is an offset
/// in the buffer. Thread-safe.
class AddressSpace {
 public:
  struct Place {
    VkBuffer buffer = VK_NULL_HANDLE;
    uint64_t offset = 0;  // of the address
    uint64_t bytes = 0;   // of the buffer
  };
  /// The address of the first byte. A buffer that is known already keeps its address, so that
  /// overlaps can be found.
  uint64_t add(VkBuffer buffer, uint64_t bytes);
  /// Undoes one add().
  void remove(uint64_t address);
  std::optional<Place> find(uint64_t address) const;

 private:
  struct Entry {
    VkBuffer buffer = VK_NULL_HANDLE;
    uint64_t bytes = 0;
    uint32_t users = 1;
  };
  mutable std::mutex mutex_;
  std::map<uint64_t, Entry> entries_;  // by address
  uint64_t next_ = uint64_t{1} << 32U;
};

}  // namespace reprise::vulkan
