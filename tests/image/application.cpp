#include "application.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "backends/registry.h"
#include "backends/vulkan/facts.h"

namespace reprise::test {

size_t vulkan_devices() {
  size_t n = 0;
  for (const DeviceInfo& d : list_devices())
    if (d.usable && d.facts.api == Api::Vulkan) ++n;
  return n;
}

struct Application::Impl {
  std::shared_ptr<vulkan::Instance> instance;
  vulkan::PhysicalDevice physical;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  VolkDeviceTable vk{};
  VkPhysicalDeviceMemoryProperties types{};
  VkCommandPool pool = VK_NULL_HANDLE;
  std::vector<VkImage> images;
  std::vector<VkBuffer> buffers;
  std::vector<VkDeviceMemory> memory;

  void make_device(size_t index) {
    const bool validation = std::getenv("REPRISE_TEST_VALIDATION") != nullptr;
    instance = *vulkan::Instance::create(
        validation, [](Severity, const std::string& message) { ADD_FAILURE() << message; });
    physical = vulkan::PhysicalDevice::query(*instance, (*instance->physical_devices())[index], 0);
    instance->fn().memory_properties(physical.handle, &types);
    VkPhysicalDeviceBufferDeviceAddressFeatures address{};
    address.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES;
    address.bufferDeviceAddress = VK_TRUE;
    const float priority = 1;
    VkDeviceQueueCreateInfo queue_info{};
    queue_info.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue_info.queueFamilyIndex = physical.queues.compute;
    queue_info.queueCount = 1;
    queue_info.pQueuePriorities = &priority;
    VkDeviceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.pNext = &address;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue_info;
    ASSERT_EQ(instance->fn().create_device(physical.handle, &info, nullptr, &device), VK_SUCCESS);
    instance->load_device_table(device, vk);
    vk.vkGetDeviceQueue(device, physical.queues.compute, 0, &queue);
    VkCommandPoolCreateInfo pool_info{};
    pool_info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    pool_info.queueFamilyIndex = physical.queues.compute;
    ASSERT_EQ(vk.vkCreateCommandPool(device, &pool_info, nullptr, &pool), VK_SUCCESS);
  }

  VkDeviceMemory allocate(const VkMemoryRequirements& needs, VkMemoryPropertyFlags wanted) {
    VkMemoryAllocateFlagsInfo flags{};
    flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    VkMemoryAllocateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    info.pNext = &flags;
    info.allocationSize = needs.size;
    const auto fits = [&](uint32_t type) {
      return (needs.memoryTypeBits >> type & 1) != 0 &&
             (types.memoryTypes[type].propertyFlags & wanted) == wanted;
    };
    while (!fits(info.memoryTypeIndex)) ++info.memoryTypeIndex;
    EXPECT_EQ(vk.vkAllocateMemory(device, &info, nullptr, &memory.emplace_back()), VK_SUCCESS);
    return memory.back();
  }

  struct Mapped {
    VkBuffer buffer = VK_NULL_HANDLE;
    void* bytes = nullptr;
  };
  Mapped make_mapped(size_t bytes) {
    VkBufferCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    info.size = bytes;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
    Mapped made;
    EXPECT_EQ(vk.vkCreateBuffer(device, &info, nullptr, &buffers.emplace_back()), VK_SUCCESS);
    made.buffer = buffers.back();
    VkMemoryRequirements needs{};
    vk.vkGetBufferMemoryRequirements(device, made.buffer, &needs);
    const VkDeviceMemory backing =
        allocate(needs, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
    EXPECT_EQ(vk.vkBindBufferMemory(device, made.buffer, backing, 0), VK_SUCCESS);
    EXPECT_EQ(vk.vkMapMemory(device, backing, 0, VK_WHOLE_SIZE, 0, &made.bytes), VK_SUCCESS);
    return made;
  }

  void barrier(VkCommandBuffer commands, VkImage image, uint32_t from, uint32_t to) {
    VkImageMemoryBarrier b{};
    b.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER;
    b.srcAccessMask = b.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
    b.oldLayout = static_cast<VkImageLayout>(from);
    b.newLayout = static_cast<VkImageLayout>(to);
    b.srcQueueFamilyIndex = b.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    b.image = image;
    b.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, VK_REMAINING_MIP_LEVELS, 0,
                          VK_REMAINING_ARRAY_LAYERS};
    vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                            VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 0, nullptr, 0, nullptr, 1, &b);
  }
};

namespace {

template <typename T>
uint64_t number(T handle) {
  uint64_t n = 0;
  std::memcpy(&n, &handle, sizeof(handle));
  return n;
}

template <typename T>
T handle(uint64_t n) {
  T made = VK_NULL_HANDLE;
  std::memcpy(&made, &n, sizeof(made));
  return made;
}

}  // namespace

Application::Application(size_t device) : impl_(std::make_unique<Impl>()) {
  impl_->make_device(device);
}

Application::~Application() {
  const VolkDeviceTable& vk = impl_->vk;
  for (const VkImage i : impl_->images) vk.vkDestroyImage(impl_->device, i, nullptr);
  for (const VkBuffer b : impl_->buffers) vk.vkDestroyBuffer(impl_->device, b, nullptr);
  for (const VkDeviceMemory m : impl_->memory) vk.vkFreeMemory(impl_->device, m, nullptr);
  vk.vkDestroyCommandPool(impl_->device, impl_->pool, nullptr);
  vk.vkDestroyDevice(impl_->device, nullptr);
}

Application::Handles Application::handles() const {
  return {impl_->instance->handle(), impl_->physical.handle, impl_->device, impl_->queue,
          impl_->physical.queues.compute};
}

bool Application::supports(uint32_t format) const {
  // vulkan::InstanceTable has no such function.
  const auto get = reinterpret_cast<PFN_vkGetPhysicalDeviceFormatProperties>(
      vkGetInstanceProcAddr(impl_->instance->handle(), "vkGetPhysicalDeviceFormatProperties"));
  VkFormatProperties properties{};
  get(impl_->physical.handle, static_cast<VkFormat>(format), &properties);
  const VkFormatFeatureFlags both =
      VK_FORMAT_FEATURE_TRANSFER_SRC_BIT | VK_FORMAT_FEATURE_TRANSFER_DST_BIT;
  return (properties.optimalTilingFeatures & both) == both;
}

uint64_t Application::make_image(uint32_t format, uint32_t width, uint32_t height, uint32_t usage,
                                 uint32_t mips, uint32_t layers) {
  VkImageCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO;
  info.imageType = VK_IMAGE_TYPE_2D;
  info.format = static_cast<VkFormat>(format);
  info.extent = {width, height, 1};
  info.mipLevels = mips;
  info.arrayLayers = layers;
  info.samples = VK_SAMPLE_COUNT_1_BIT;
  info.tiling = VK_IMAGE_TILING_OPTIMAL;
  info.usage = usage;
  VkImage image = VK_NULL_HANDLE;
  EXPECT_EQ(impl_->vk.vkCreateImage(impl_->device, &info, nullptr, &image), VK_SUCCESS);
  impl_->images.push_back(image);
  VkMemoryRequirements needs{};
  impl_->vk.vkGetImageMemoryRequirements(impl_->device, image, &needs);
  EXPECT_EQ(impl_->vk.vkBindImageMemory(impl_->device, image, impl_->allocate(needs, 0), 0),
            VK_SUCCESS);
  return number(image);
}

void Application::destroy_images() {
  for (const VkImage i : impl_->images) impl_->vk.vkDestroyImage(impl_->device, i, nullptr);
  impl_->images.clear();
}

void Application::write(uint64_t image, const std::vector<Plane>& planes,
                        const std::vector<uint8_t>& bytes, uint32_t layout, uint32_t mip,
                        uint32_t layer) {
  const Impl::Mapped staging = impl_->make_mapped(bytes.size());
  std::memcpy(staging.bytes, bytes.data(), bytes.size());
  const auto to = handle<VkImage>(image);
  execute([&](void* recorded) {
    auto* commands = static_cast<VkCommandBuffer>(recorded);
    impl_->barrier(commands, to, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL);
    VkDeviceSize offset = 0;
    for (const Plane& p : planes) {
      VkBufferImageCopy region{};
      region.bufferOffset = offset;
      region.imageSubresource = {p.aspect, mip, layer, 1};
      region.imageExtent = {p.width, p.height, 1};
      impl_->vk.vkCmdCopyBufferToImage(commands, staging.buffer, to,
                                       VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, 1, &region);
      offset += VkDeviceSize{p.width} * p.height * p.bytes_per_pixel;
    }
    EXPECT_EQ(offset, bytes.size());
    impl_->barrier(commands, to, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, layout);
  });
}

std::vector<uint8_t> Application::read(uint64_t image, const Plane& plane, uint32_t layout) {
  const size_t bytes = size_t{plane.width} * plane.height * plane.bytes_per_pixel;
  const Impl::Mapped readback = impl_->make_mapped(bytes);
  const auto from = handle<VkImage>(image);
  execute([&](void* recorded) {
    auto* commands = static_cast<VkCommandBuffer>(recorded);
    impl_->barrier(commands, from, layout, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
    VkBufferImageCopy region{};
    region.imageSubresource = {plane.aspect, 0, 0, 1};
    region.imageExtent = {plane.width, plane.height, 1};
    impl_->vk.vkCmdCopyImageToBuffer(commands, from, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL,
                                     readback.buffer, 1, &region);
  });
  const auto* begin = static_cast<const uint8_t*>(readback.bytes);
  return {begin, begin + bytes};
}

uint64_t Application::make_buffer(const std::vector<uint8_t>& bytes) {
  const Impl::Mapped made = impl_->make_mapped(bytes.size());
  std::memcpy(made.bytes, bytes.data(), bytes.size());
  return number(made.buffer);
}

std::vector<uint8_t> Application::read_buffer(uint64_t buffer, size_t bytes) {
  const Impl::Mapped readback = impl_->make_mapped(bytes);
  execute([&](void* recorded) {
    const VkBufferCopy region{0, 0, bytes};
    impl_->vk.vkCmdCopyBuffer(static_cast<VkCommandBuffer>(recorded), handle<VkBuffer>(buffer),
                              readback.buffer, 1, &region);
  });
  const auto* begin = static_cast<const uint8_t*>(readback.bytes);
  return {begin, begin + bytes};
}

void Application::execute(const std::function<void(void* command_buffer)>& record, int times) {
  VkCommandBufferAllocateInfo allocate{};
  allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  allocate.commandPool = impl_->pool;
  allocate.commandBufferCount = 1;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  EXPECT_EQ(impl_->vk.vkAllocateCommandBuffers(impl_->device, &allocate, &commands), VK_SUCCESS);
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  EXPECT_EQ(impl_->vk.vkBeginCommandBuffer(commands, &begin), VK_SUCCESS);
  record(commands);
  EXPECT_EQ(impl_->vk.vkEndCommandBuffer(commands), VK_SUCCESS);
  VkSubmitInfo submit{};
  submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &commands;
  for (int i = 0; i < times; ++i) {
    EXPECT_EQ(impl_->vk.vkQueueSubmit(impl_->queue, 1, &submit, VK_NULL_HANDLE), VK_SUCCESS);
    EXPECT_EQ(impl_->vk.vkQueueWaitIdle(impl_->queue), VK_SUCCESS);
  }
}

void Application::clear(void* command_buffer, uint64_t image, uint32_t from_layout, float value) {
  auto* commands = static_cast<VkCommandBuffer>(command_buffer);
  const auto cleared = handle<VkImage>(image);
  impl_->barrier(commands, cleared, from_layout, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL);
  VkClearColorValue color{};
  for (float& c : color.float32) c = value;
  const VkImageSubresourceRange range{VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
  impl_->vk.vkCmdClearColorImage(commands, cleared, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, &color, 1,
                                 &range);
}

}  // namespace reprise::test
