#include "backends/vulkan/device.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/vulkan/recording.h"
#include "backends/vulkan/transfers.h"

namespace reprise::vulkan {
namespace {

constexpr uint64_t kStagingBytes = uint64_t{8} << 20;

Status out_of_range(const DeviceBuffer& b, uint64_t offset, uint64_t bytes) {
  if (offset <= b.size() && bytes <= b.size() - offset) return {};
  return {Code::Usage, "a transfer of " + std::to_string(bytes) + " bytes at offset " +
                           std::to_string(offset) + " leaves a buffer of " +
                           std::to_string(b.size()) + " bytes"};
}

Status create_device(Driver& d) {
  FeatureChain features;
  d.physical.query_features(*d.instance, features);
  d.physical.keep_used(features);
  const QueueFamilies& families = d.physical.queues;
  const std::array<float, 3> priorities{1.0F, 1.0F, 1.0F};
  std::array<VkDeviceQueueCreateInfo, 2> queues{};
  for (VkDeviceQueueCreateInfo& q : queues) {
    q.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    q.pQueuePriorities = priorities.data();
  }
  const bool one_family = families.transfer == families.compute;
  queues[0].queueFamilyIndex = families.compute;
  queues[0].queueCount = 1 + (one_family ? families.transfer_queues : 0);
  queues[1].queueFamilyIndex = families.transfer;
  queues[1].queueCount = families.transfer_queues;
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &features.core;
  info.queueCreateInfoCount = families.transfer_queues > 0 && !one_family ? 2 : 1;
  info.pQueueCreateInfos = queues.data();
  info.enabledExtensionCount = static_cast<uint32_t>(d.physical.extensions.size());
  info.ppEnabledExtensionNames = d.physical.extensions.data();
  RP_TRY(d.check(d.instance->fn().create_device(d.physical.handle, &info, nullptr, &d.device),
                 "vkCreateDevice"));
  d.owned = true;
  d.queue_family = families.compute;
  return {};
}

Status adopt_transfer_queues(Driver& d, const BorrowedVulkan& b, bool hidden) {
  QueueFamilies& families = d.physical.queues;
  families.transfer_queues = 0;
  if (b.upload_queue == nullptr && b.download_queue == nullptr) return {};
  if (b.upload_queue == nullptr || b.upload_queue == b.queue || b.download_queue == b.queue ||
      b.upload_queue == b.download_queue) {
    return {Code::Usage,
            "reprise_vulkan_device: `download_queue` needs `upload_queue`, and `queue` and they "
            "must be different queues"};
  }
  if (hidden) return {};
  families.transfer = b.transfer_queue_family;
  families.only_transfers = b.transfer_queue_family != b.queue_family;
  d.upload_queue = static_cast<VkQueue>(b.upload_queue);
  d.download_queue = static_cast<VkQueue>(b.download_queue);
  return {};
}

Status adopt_device(Driver& d, const BorrowedVulkan& b) {
  const auto& families = d.physical.families;
  if (b.queue_family >= families.size() || (families[b.queue_family] & VK_QUEUE_COMPUTE_BIT) == 0) {
    return {Code::Usage, "reprise_vulkan_device: `queue_family` " + std::to_string(b.queue_family) +
                             " is none of the device's families with compute queues"};
  }
  d.device = static_cast<VkDevice>(b.device);
  d.queue = static_cast<VkQueue>(b.queue);
  d.queue_family = b.queue_family;
  d.lock_queue = b.lock_queue;
  d.unlock_queue = b.unlock_queue;
  DeviceFacts& f = d.physical.info.facts;
  // It is unknown whether the application enabled them.
  f.matrices.clear();
  f.flexible_matrices.clear();
  f.least_subgroup_size = f.largest_subgroup_size = 0;  // nor whether it enabled their control
  const DeviceFacts offered = f;
  if (b.no_buffer_address && f.buffer_address) d.physical.use_descriptors();
  d.physical.update_after_bind = d.physical.update_after_bind && b.update_after_bind;
  f.int64 = f.int64 && b.int64;
  f.float16 = f.float16 && b.float16;
  f.float64 = f.float64 && b.float64;
  f.storage8 = f.storage8 && b.storage8;
  f.storage16 = f.storage16 && b.storage16;
  f.exact_halves = f.exact_halves && f.float16;
  if (f != offered) d.physical.info.offered = offered;
  d.physical.full_subgroups = false;
  return {};
}

}  // namespace

Result<std::unique_ptr<VulkanDevice>> VulkanDevice::create(std::shared_ptr<Instance> instance,
                                                           PhysicalDevice physical,
                                                           const BackendOptions& options,
                                                           const TableHook& hook,
                                                           const DriverHook& driver_hook) {
  if (!physical.info.usable) {
    return Status(Code::Device, physical.info.id + " (" + physical.info.name +
                                    ") cannot be used: " + physical.info.reason);
  }
  if (options.memory.allocate && !options.vulkan.device) {
    return Status(Code::Usage,
                  "only an application that lends its own Vulkan device can allocate its memory "
                  "(reprise_allocator)");
  }
  auto d = std::make_shared<Driver>();
  d->instance = std::move(instance);
  d->physical = std::move(physical);
  d->log = options.log;
  d->lender = options.memory;
  d->runs.patience_ns = options.patience_ns;
  d->instance->fn().memory_properties(d->physical.handle, &d->memory);
  if (options.vulkan.device) {
    RP_TRY(adopt_device(*d, options.vulkan));
    RP_TRY(adopt_transfer_queues(*d, options.vulkan, options.hidden.transfer_queues));
  } else {
    RP_TRY(create_device(*d));
  }
  d->instance->load_device_table(d->device, d->vk);
  if (driver_hook) driver_hook(*d);
  if (hook) hook(d->vk);
  if (!d->queue) d->vk.vkGetDeviceQueue(d->device, d->queue_family, 0, &d->queue);
  const QueueFamilies& families = d->physical.queues;
  const uint32_t first = families.transfer == families.compute ? 1 : 0;
  if (families.transfer_queues > 0)
    d->vk.vkGetDeviceQueue(d->device, families.transfer, first, &d->upload_queue);
  if (families.transfer_queues > 1)
    d->vk.vkGetDeviceQueue(d->device, families.transfer, first + 1, &d->download_queue);
  RP_TRY(d->make_transfer_semaphores());
  std::unique_ptr<VulkanDevice> self(new VulkanDevice(std::move(d), options));
  RP_TRY(self->kernels_.prepare());
  return self;
}

Result<std::unique_ptr<DeviceBuffer>> VulkanDevice::allocate(uint64_t bytes, MemoryUse use) {
  RP_ASSIGN(std::unique_ptr<DeviceBuffer> b, VulkanBuffer::create(driver_, bytes, use));
  return b;
}

Result<std::unique_ptr<DeviceBuffer>> VulkanDevice::borrow(void* handle, uint64_t bytes) {
  if (driver_->owned) {
    return Status(
        Code::Usage,
        "only an application that lends its own Vulkan device has buffers of this device; "
        "import memory that another device exported, or copy");
  }
  RP_ASSIGN(std::unique_ptr<DeviceBuffer> b, VulkanBuffer::borrow(driver_, handle, bytes));
  return b;
}

Result<std::unique_ptr<DeviceBuffer>> VulkanDevice::import(const ExternalMemory& memory) {
  RP_ASSIGN(std::unique_ptr<DeviceBuffer> b, VulkanBuffer::import(driver_, memory));
  return b;
}

Result<std::vector<std::unique_ptr<DeviceKernel>>> VulkanDevice::create_kernels(
    std::span<const plan::KernelCode> code) {
  return kernels_.create(code);
}

Result<std::unique_ptr<Recording>> VulkanDevice::record(RecordingDesc desc) {
  RP_ASSIGN(std::unique_ptr<Recording> r, VulkanRecording::create(driver_, std::move(desc)));
  return r;
}

Result<std::shared_ptr<void>> VulkanDevice::record_into(void* command_buffer,
                                                        const RecordingDesc& desc) {
  if (driver_->owned) {
    return Status(Code::Usage,
                  "only an application that lends its own Vulkan device has command buffers of "
                  "this device");
  }
  return write_to(driver_, static_cast<VkCommandBuffer>(command_buffer), desc);
}

Status VulkanDevice::check_image(const DeviceImage& image, ImageFormat format, bool written) const {
  return vulkan::check_image(*driver_, image, format, written);
}

Result<std::unique_ptr<VulkanBuffer>> VulkanDevice::take_staging(MemoryUse use, uint64_t bytes) {
  bytes = std::min(bytes, kStagingBytes);
  {
    const std::lock_guard lock(staging_mutex_);
    std::unique_ptr<VulkanBuffer>& kept = use == MemoryUse::Upload ? for_uploads_ : for_downloads_;
    if (kept && kept->size() >= bytes) return std::move(kept);
  }
  return VulkanBuffer::create(driver_, bytes, use);
}

void VulkanDevice::keep_staging(MemoryUse use, std::unique_ptr<VulkanBuffer> buffer) {
  const std::lock_guard lock(staging_mutex_);
  std::unique_ptr<VulkanBuffer>& kept = use == MemoryUse::Upload ? for_uploads_ : for_downloads_;
  if (!kept || kept->size() < buffer->size()) kept = std::move(buffer);
}

Status VulkanDevice::copy_now(const DeviceBuffer& src, uint64_t src_offset, DeviceBuffer& dst,
                              uint64_t dst_offset, uint64_t bytes) {
  RecordingDesc desc;
  Command copy;
  copy.kind = Command::Kind::Copy;
  copy.src = &src;
  copy.dst = &dst;
  copy.src_offset = src_offset;
  copy.dst_offset = dst_offset;
  copy.bytes = bytes;
  Command to_host;
  to_host.kind = Command::Kind::HostBarrier;
  desc.commands = {copy, to_host};
  if (driver_->upload_queue && is_shared(src) && is_shared(dst)) return transfer_now(copy);
  RP_TRY(driver_->runs.wait_before("a transfer", driver_->physical.info));
  RP_ASSIGN(auto recording, VulkanRecording::create(driver_, std::move(desc)));
  RP_TRY(recording->submit());
  return recording->wait_for_transfer();
}

/// As copy_now(), but in a queue of its own.
Status VulkanDevice::transfer_now(const Command& copy) {
  TransferBuffer commands;
  RP_TRY(commands.begin(driver_));
  commands.see_everything();
  commands.copy({&copy, 1});
  commands.show_to_host();
  RP_TRY(commands.end());
  return driver_->transfer(copy.dst->mapped() != nullptr, commands.handle());
}

Status VulkanDevice::upload(DeviceBuffer& dst, uint64_t offset, std::span<const std::byte> bytes) {
  RP_TRY(driver_->alive());
  RP_TRY(out_of_range(dst, offset, bytes.size()));
  if (dst.mapped()) {
    if (!bytes.empty())
      std::memcpy(static_cast<std::byte*>(dst.mapped()) + offset, bytes.data(), bytes.size());
    return {};
  }
  RP_ASSIGN(auto staging, take_staging(MemoryUse::Upload, bytes.size()));
  for (size_t done = 0; done < bytes.size();) {
    const size_t part = std::min<size_t>(bytes.size() - done, staging->size());
    std::memcpy(staging->mapped(), bytes.data() + done, part);
    RP_TRY(copy_now(*staging, 0, dst, offset + done, part));
    done += part;
  }
  keep_staging(MemoryUse::Upload, std::move(staging));
  return {};
}

Status VulkanDevice::download(const DeviceBuffer& src, uint64_t offset,
                              std::span<std::byte> bytes) {
  RP_TRY(driver_->alive());
  RP_TRY(out_of_range(src, offset, bytes.size()));
  if (src.mapped()) {
    if (!bytes.empty()) {
      std::memcpy(bytes.data(), static_cast<const std::byte*>(src.mapped()) + offset, bytes.size());
    }
    return {};
  }
  RP_ASSIGN(auto staging, take_staging(MemoryUse::Readback, bytes.size()));
  for (size_t done = 0; done < bytes.size();) {
    const size_t part = std::min<size_t>(bytes.size() - done, staging->size());
    RP_TRY(copy_now(src, offset + done, *staging, 0, part));
    std::memcpy(bytes.data() + done, staging->mapped(), part);
    done += part;
  }
  keep_staging(MemoryUse::Readback, std::move(staging));
  return {};
}

bool VulkanDevice::owns(const DeviceBuffer& buffer) const {
  const auto* own = dynamic_cast<const VulkanBuffer*>(&buffer);
  return own && own->belongs_to(*driver_);
}

Counters VulkanDevice::counters() const {
  return driver_->counters.read();
}

}  // namespace reprise::vulkan
