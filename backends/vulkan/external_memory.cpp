// Buffers in memory that another API or process exported (VK_KHR_external_memory and what extends
// it, Vulkan specification, "External Resource Sharing").
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "backends/vulkan/external_memory.h"
#include "backends/vulkan/memory.h"
#include "runtime/platform/file.h"

namespace reprise::vulkan {
namespace {

using Kind = ExternalMemory::Kind;

struct Form {
  const char* extension;
  VkExternalMemoryHandleTypeFlagBits type;
  const char* name;  // for messages
};

Form form_of(Kind kind) {
  switch (kind) {
    case Kind::OpaqueFd:
      return {VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME,
              VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT, "opaque file descriptors"};
    case Kind::DmaBuf:
      return {VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME,
              VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT, "dma-bufs"};
    case Kind::OpaqueWin32:
      return {kExternalMemoryWin32, VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32_BIT, "NT handles"};
    case Kind::AndroidHardwareBuffer:
      return {kExternalMemoryAndroid,
              VK_EXTERNAL_MEMORY_HANDLE_TYPE_ANDROID_HARDWARE_BUFFER_BIT_ANDROID,
              "AHardwareBuffers"};
  }
  return {};
}

Status refused(const Driver& d, const Form& form) {
  return unsupported(d.physical.info.id + " (" + d.physical.info.name + ") imports no " +
                     form.name + " for storage buffers");
}

/// Whether the device imports such memory for buffers, and for what it insists on.
Result<VkExternalMemoryFeatureFlags> features_of(const Driver& d, const Form& form,
                                                 VkBufferUsageFlags usage) {
  if (!d.owned) {
    return unsupported(
        "memory cannot be imported to a device that the application lends; import it there, and "
        "borrow the VkBuffer");
  }
  const auto& enabled = d.physical.extensions;
  const std::string_view wanted = form.extension;
  if (std::ranges::find(enabled, wanted, [](const char* e) { return std::string_view(e); }) ==
      enabled.end())
    return refused(d, form);
  VkPhysicalDeviceExternalBufferInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO;
  info.usage = usage;
  info.handleType = form.type;
  VkExternalBufferProperties found{};
  found.sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES;
  d.instance->fn().external_buffer_properties(d.physical.handle, &info, &found);
  const auto features = found.externalMemoryProperties.externalMemoryFeatures;
  if ((features & VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT) == 0) return refused(d, form);
  return features;
}

/// As Driver::check, but a handle that the driver does not take is the caller's mistake.
Status check_import(Driver& d, VkResult r, const char* call) {
  if (r != VK_ERROR_INVALID_EXTERNAL_HANDLE) return d.check(r, call);
  return {Code::Usage,
          std::string(call) + ": the driver does not accept the handle (" + name_of(r) + ")"};
}

/// What the driver says of the handle's memory.
struct Accepted {
  uint32_t types = ~uint32_t{0};  // bits of memory types
  uint64_t bytes = 0;             // of the memory
};

Result<Accepted> accepted_by(Driver& d, const ExternalMemory& from, int descriptor) {
  Accepted out;
  out.bytes = from.allocation;
  if (from.kind == Kind::DmaBuf) {
    VkMemoryFdPropertiesKHR found{};
    found.sType = VK_STRUCTURE_TYPE_MEMORY_FD_PROPERTIES_KHR;
    RP_TRY(check_import(
        d, d.vk.vkGetMemoryFdPropertiesKHR(d.device, form_of(from.kind).type, descriptor, &found),
        "vkGetMemoryFdPropertiesKHR"));
    out.types = found.memoryTypeBits;
  }
  if (from.kind == Kind::AndroidHardwareBuffer) {
    const auto get = reinterpret_cast<GetHardwareBufferProperties>(
        d.instance->fn().get_device_proc_addr(d.device, kGetHardwareBufferProperties));
    if (get == nullptr) return refused(d, form_of(from.kind));
    HardwareBufferProperties found{};
    RP_TRY(check_import(d, get(d.device, reinterpret_cast<const void*>(from.handle), &found),
                        kGetHardwareBufferProperties));
    out.types = found.memory_types;
    out.bytes = found.bytes;
  }
  return out;
}

/// The first memory type that fits, the device's own ones first.
Result<uint32_t> fitting_type(const Driver& d, const ExternalMemory& from, uint32_t types) {
  if (from.memory_type) {
    if (*from.memory_type < 32 && (types >> *from.memory_type & 1) != 0) return *from.memory_type;
    return Status(Code::Usage, "memory of type " + std::to_string(*from.memory_type) +
                                   " cannot hold a storage buffer of " + d.physical.info.id);
  }
  std::optional<uint32_t> any;
  for (uint32_t t = 0; t < d.memory.memoryTypeCount; ++t) {
    if ((types >> t & 1) == 0) continue;
    if (!any) any = t;
    if ((d.memory.memoryTypes[t].propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0)
      return t;
  }
  if (any) return *any;
  return Status(Code::Usage, "no memory type of " + d.physical.info.id + " fits the handle");
}

Status check_place(const ExternalMemory& from, uint64_t memory, const VkMemoryRequirements& needs) {
  if (from.offset % needs.alignment != 0) {
    return {Code::Usage, "the offset " + std::to_string(from.offset) +
                             " in the imported memory is no multiple of " +
                             std::to_string(needs.alignment)};
  }
  const uint64_t room = memory < from.offset ? 0 : memory - from.offset;
  if (room < needs.size) {
    return {Code::Usage, "a buffer of " + std::to_string(from.bytes) + " bytes takes " +
                             std::to_string(needs.size) + " bytes, the imported memory has " +
                             std::to_string(room) + " from the offset on"};
  }
  const bool whole = from.offset == 0 && needs.size == memory;
  if (!from.dedicated || whole || from.kind == Kind::AndroidHardwareBuffer) return {};
  return {Code::Usage,
          "memory that was allocated for one buffer must be imported as a buffer of that size, at "
          "offset 0; a buffer of " +
              std::to_string(from.bytes) + " bytes takes " + std::to_string(needs.size) +
              " of its " + std::to_string(memory) + " bytes"};
}

}  // namespace

Status VulkanBuffer::import_memory(const ExternalMemory& from, const VkMemoryRequirements& needs) {
  Driver& d = *driver_;
  platform::Descriptor duplicate;  // the driver owns it once it has imported it
  if (from.is_descriptor()) {
    RP_ASSIGN(duplicate, platform::Descriptor::duplicate(from.handle));
  }
  RP_ASSIGN(const Accepted accepted, accepted_by(d, from, duplicate.get()));
  RP_TRY(check_place(from, accepted.bytes, needs));
  RP_ASSIGN(const uint32_t type, fitting_type(d, from, accepted.types & needs.memoryTypeBits));
  VkMemoryAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  info.allocationSize = accepted.bytes;
  info.memoryTypeIndex = type;
  const auto chain = [&](auto& next) {
    next.pNext = info.pNext;
    info.pNext = &next;
  };
  VkMemoryAllocateFlagsInfo flags{};
  flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  if (!d.uses_descriptors()) chain(flags);
  VkMemoryDedicatedAllocateInfo dedicated{};
  dedicated.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO;
  dedicated.buffer = handle_;
  if (from.dedicated) chain(dedicated);
  VkImportMemoryFdInfoKHR descriptor{};
  descriptor.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR;
  descriptor.handleType = form_of(from.kind).type;
  ImportWin32Handle win32{};
  win32.handle_type = form_of(from.kind).type;
  win32.handle = reinterpret_cast<void*>(from.handle);
  ImportHardwareBuffer hardware{};
  hardware.buffer = win32.handle;
  if (from.is_descriptor()) {
    descriptor.fd = duplicate.get();
    chain(descriptor);
  } else if (from.kind == Kind::OpaqueWin32) {
    chain(win32);
  } else {
    chain(hardware);
  }
  VkDeviceMemory memory = VK_NULL_HANDLE;
  RP_TRY(
      check_import(d, d.vk.vkAllocateMemory(d.device, &info, nullptr, &memory), "vkAllocateMemory")
          .with_context("importing memory of " + std::to_string(from.allocation) + " bytes"));
  duplicate.release();
  memory_ = {driver_, memory};
  RP_TRY(d.check(d.vk.vkBindBufferMemory(d.device, handle_, memory, from.offset),
                 "vkBindBufferMemory"));
  // A mapping only saves copies. The host's access to a dma-buf would need other system calls.
  if (from.kind != Kind::DmaBuf && is_cached(d.memory.memoryTypes[type].propertyFlags) &&
      !map(from.offset, from.bytes).ok())
    mapped_ = nullptr;
  return {};
}

Result<std::unique_ptr<VulkanBuffer>> VulkanBuffer::import(const std::shared_ptr<Driver>& driver,
                                                           const ExternalMemory& memory) {
  RP_TRY(driver->alive());
  const Form form = form_of(memory.kind);
  std::unique_ptr<VulkanBuffer> b(new VulkanBuffer(driver));
  b->size_ = memory.bytes;
  VkBufferCreateInfo info = b->describe(memory.bytes);
  RP_ASSIGN(const VkExternalMemoryFeatureFlags features, features_of(*driver, form, info.usage));
  VkExternalMemoryBufferCreateInfo external{};
  external.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO;
  external.handleTypes = form.type;
  info.pNext = &external;
  RP_TRY(b->make_buffer(info));
  VkMemoryRequirements needs{};
  driver->vk.vkGetBufferMemoryRequirements(driver->device, b->handle_, &needs);
  ExternalMemory from = memory;
  from.dedicated =
      from.dedicated || (features & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT) != 0;
  RP_TRY(b->import_memory(from, needs));
  RP_TRY(b->finish());
  return b;
}

}  // namespace reprise::vulkan
