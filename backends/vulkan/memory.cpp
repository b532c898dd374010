#include "backends/vulkan/memory.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace reprise::vulkan {
namespace {

struct Wish {
  VkMemoryPropertyFlags with, without;
};

// The property sets in order of preference. Memory types that have an earlier set are tried first.
// `reads_back`: the host reads the parameter blocks that it writes.
std::vector<Wish> wishes(MemoryUse use, DeviceKind kind, bool reads_back) {
  constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  constexpr VkMemoryPropertyFlags kMapped =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  constexpr VkMemoryPropertyFlags kCached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  switch (use) {
    case MemoryUse::Device:
      if (kind == DeviceKind::Cpu || kind == DeviceKind::IntegratedGpu)
        return {{kLocal | kMapped | kCached, 0}, {kLocal, 0}, {0, 0}};
      return {{kLocal, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT}, {kLocal, 0}, {0, 0}};
    case MemoryUse::Upload:
      if (reads_back) return {{kMapped | kCached, 0}, {kMapped, 0}};
      return {{kLocal | kMapped, 0}, {kMapped, 0}};
    case MemoryUse::Readback:
      return {{kMapped | kCached, 0}, {kMapped, 0}};
  }
  return {};
}

}  // namespace

bool is_cached(VkMemoryPropertyFlags flags) {
  constexpr VkMemoryPropertyFlags kBoth =
      VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  return (flags & kBoth) == kBoth;
}

VkBufferCreateInfo VulkanBuffer::describe(uint64_t bytes) const {
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
               VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT;
  info.usage |= driver_->uses_descriptors() ? VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT
                                            : VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  // The queues of both families use staging memory and tensors of inputs and outputs. Concurrent
  // sharing costs buffers nothing on GPUs, while a transfer of ownership takes two more barriers.
  info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
  if (driver_->upload_queue && families_[0] != families_[1]) {
    info.sharingMode = VK_SHARING_MODE_CONCURRENT;
    info.queueFamilyIndexCount = static_cast<uint32_t>(families_.size());
    info.pQueueFamilyIndices = families_.data();
  }
  return info;
}

Status VulkanBuffer::make_buffer(const VkBufferCreateInfo& info) {
  RP_TRY(driver_->check(driver_->vk.vkCreateBuffer(driver_->device, &info, nullptr, &handle_),
                        "vkCreateBuffer"));
  buffer_ = {driver_, handle_};
  return {};
}

VkResult VulkanBuffer::try_type(uint32_t type, uint64_t bytes) {
  heap_ = driver_->memory.memoryTypes[type].heapIndex;
  std::atomic<uint64_t>& used = driver_->heap_bytes[heap_];
  if (used.fetch_add(bytes) + bytes > driver_->memory.memoryHeaps[heap_].size) {
    used -= bytes;
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  charged_ = bytes;
  VkMemoryAllocateFlagsInfo flags{};
  flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  if (!driver_->uses_descriptors()) info.pNext = &flags;
  info.allocationSize = bytes;
  info.memoryTypeIndex = type;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  const VkResult r = driver_->vk.vkAllocateMemory(driver_->device, &info, nullptr, &memory);
  if (r != VK_SUCCESS) {
    used -= bytes;
    charged_ = 0;
    return r;
  }
  ++driver_->counters.allocations;
  memory_ = {driver_, memory};
  return VK_SUCCESS;
}

bool VulkanBuffer::try_lender(uint32_t type, const VkMemoryRequirements& needs, MemoryUse use) {
  LentMemory memory;
  memory.bytes = needs.size;
  memory.alignment = needs.alignment;
  memory.use = use;
  memory.type = type;
  if (!driver_->lender.allocate(memory)) return false;
  ++driver_->counters.allocations;
  lent_ = memory;
  return true;
}

/// Allocates memory of the first type in the order of preference that has any.
Status VulkanBuffer::choose_type(MemoryUse use, const VkMemoryRequirements& needs, uint32_t& type) {
  VkResult last = VK_ERROR_OUT_OF_DEVICE_MEMORY;
  uint32_t tried = 0;
  for (const Wish& wish :
       wishes(use, driver_->physical.info.facts.kind, driver_->uses_descriptors())) {
    for (type = 0; type < driver_->memory.memoryTypeCount; ++type) {
      const VkMemoryPropertyFlags flags = driver_->memory.memoryTypes[type].propertyFlags;
      if ((needs.memoryTypeBits >> type & 1) == 0 || (tried >> type & 1) != 0) continue;
      if ((flags & wish.with) != wish.with || (flags & wish.without) != 0) continue;
      tried |= 1U << type;
      if (driver_->lender.allocate) {
        if (try_lender(type, needs, use)) return {};
        continue;
      }
      last = try_type(type, needs.size);
      if (last == VK_SUCCESS) return {};
      if (last != VK_ERROR_OUT_OF_DEVICE_MEMORY) return driver_->check(last, "vkAllocateMemory");
    }
  }
  const std::string what = "allocating " + std::to_string(needs.size) + " bytes";
  if (!driver_->lender.allocate) return driver_->check(last, "vkAllocateMemory").with_context(what);
  return {Code::OutOfMemory, what + " on " + driver_->physical.info.id +
                                 ": the application's reprise_allocator has no such memory"};
}

Status VulkanBuffer::bind_lent() {
  const bool wrong = lent_->handle == 0 || lent_->offset % lent_->alignment != 0;
  if (wrong || (lent_->use != MemoryUse::Device && !lent_->mapped)) {
    return {Code::Usage, std::string("the application's reprise_allocator gave ") +
                             (wrong ? "no VkDeviceMemory, or an offset that is not aligned"
                                    : "memory that is not mapped for the host")};
  }
  VkDeviceMemory memory = VK_NULL_HANDLE;
  // NOLINTNEXTLINE(bugprone-sizeof-expression): the handle itself is what is copied
  std::memcpy(&memory, &lent_->handle, sizeof(memory));
  mapped_ = lent_->mapped;
  return driver_->check(
      driver_->vk.vkBindBufferMemory(driver_->device, handle_, memory, lent_->offset),
      "vkBindBufferMemory");
}

Status VulkanBuffer::make_memory(MemoryUse use) {
  VkMemoryRequirements needs{};
  driver_->vk.vkGetBufferMemoryRequirements(driver_->device, handle_, &needs);
  uint32_t type = 0;
  RP_TRY(choose_type(use, needs, type));
  if (lent_) return bind_lent();
  RP_TRY(driver_->check(driver_->vk.vkBindBufferMemory(driver_->device, handle_, memory_.get(), 0),
                        "vkBindBufferMemory"));
  const VkMemoryPropertyFlags flags = driver_->memory.memoryTypes[type].propertyFlags;
  return use == MemoryUse::Device && !is_cached(flags) ? Status() : map(0, VK_WHOLE_SIZE);
}

Status VulkanBuffer::map(uint64_t offset, uint64_t bytes) {
  return driver_->check(
      driver_->vk.vkMapMemory(driver_->device, memory_.get(), offset, bytes, 0, &mapped_),
      "vkMapMemory");
}

Status VulkanBuffer::finish() {
  if (driver_->uses_descriptors()) {
    address_ = driver_->addresses.add(handle_, size_);
    return {};
  }
  VkBufferDeviceAddressInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
  info.buffer = handle_;
  const auto get = driver_->vk.vkGetBufferDeviceAddress ? driver_->vk.vkGetBufferDeviceAddress
                                                        : driver_->vk.vkGetBufferDeviceAddressKHR;
  address_ = get(driver_->device, &info);
  if (address_ != 0) return {};
  return {Code::Device,
          "vkGetBufferDeviceAddress gave no address; a borrowed buffer needs "
          "VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT"};
}

Result<std::unique_ptr<VulkanBuffer>> VulkanBuffer::create(std::shared_ptr<Driver> driver,
                                                           uint64_t bytes, MemoryUse use) {
  RP_TRY(driver->alive());
  const uint64_t limit = driver->physical.info.facts.max_buffer_bytes;
  if (bytes > limit) {
    return unsupported("a buffer of " + std::to_string(bytes) + " bytes exceeds the limit of " +
                       driver->physical.info.id + ", " + std::to_string(limit) + " bytes");
  }
  std::unique_ptr<VulkanBuffer> b(new VulkanBuffer(std::move(driver)));
  b->size_ = std::max<uint64_t>(bytes, 16);
  RP_TRY(b->make_buffer(b->describe(b->size_)));
  RP_TRY(b->make_memory(use));
  RP_TRY(b->finish());
  return b;
}

Result<std::unique_ptr<VulkanBuffer>> VulkanBuffer::borrow(std::shared_ptr<Driver> driver,
                                                           void* handle, uint64_t bytes) {
  RP_TRY(driver->alive());
  if (!handle) return Status(Code::Usage, "a borrowed buffer needs its VkBuffer handle");
  std::unique_ptr<VulkanBuffer> b(new VulkanBuffer(std::move(driver)));
  b->size_ = bytes;
  b->handle_ = static_cast<VkBuffer>(handle);
  b->shared_ = false;
  RP_TRY(b->finish());
  return b;
}

VulkanBuffer::~VulkanBuffer() {
  if (driver_->uses_descriptors() && address_ != 0) driver_->addresses.remove(address_);
  driver_->heap_bytes[heap_] -= charged_;
  if (!lent_ || driver_->runs.given_up()) return;
  buffer_ = {};
  driver_->lender.release(*lent_);
}

}  // namespace reprise::vulkan
