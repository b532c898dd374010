#include "backends/vulkan/address_space.h"

#include <algorithm>

#include "runtime/base/align.h"

namespace reprise::vulkan {

uint64_t AddressSpace::add(VkBuffer buffer, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  for (auto& [address, e] : entries_) {
    if (e.buffer != buffer) continue;
    ++e.users;
    e.bytes = std::max(e.bytes, bytes);
    return address;
  }
  const uint64_t address = next_;
  next_ += align_up(bytes + 1, uint64_t{1} << 32U);
  entries_.emplace(address, Entry{buffer, bytes});
  return address;
}

void AddressSpace::remove(uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(address);
  if (it != entries_.end() && --it->second.users == 0) entries_.erase(it);
}

std::optional<AddressSpace::Place> AddressSpace::find(uint64_t address) const {
  const std::lock_guard lock(mutex_);
  auto it = entries_.upper_bound(address);
  if (it == entries_.begin()) return {};
  --it;
  const Entry& e = it->second;
  if (address - it->first > e.bytes) return {};  // an empty tensor may be at the end
  return Place{e.buffer, address - it->first, e.bytes};
}

}  // namespace reprise::vulkan
