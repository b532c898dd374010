// An application that already has a Vulkan device.
#include <bit>
#include <vector>

#include "backends/vulkan/facts.h"
#include "contract.h"
#include "lend.h"

namespace reprise::test {
namespace {

// What an application that renders with Vulkan already has.
struct VulkanApplication {
  std::shared_ptr<vulkan::Instance> instance;
  vulkan::PhysicalDevice physical;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  VolkDeviceTable vk{};
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  std::vector<VkSemaphore> semaphores;
  int locks = 0, unlocks = 0;

  explicit VulkanApplication(size_t index) {
    instance = *vulkan::Instance::create(false, {});
    physical = vulkan::PhysicalDevice::query(*instance, (*instance->physical_devices())[index], 0);
    VkPhysicalDeviceBufferDeviceAddressFeatures address{};
    address.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES;
    address.bufferDeviceAddress = VK_TRUE;
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline{};
    timeline.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES;
    timeline.timelineSemaphore = VK_TRUE;
    address.pNext = &timeline;
    const float priority = 1;
    VkDeviceQueueCreateInfo queue_info{};
    queue_info.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue_info.queueFamilyIndex = physical.queue_family;
    queue_info.queueCount = 1;
    queue_info.pQueuePriorities = &priority;
    VkDeviceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.pNext = &address;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue_info;
    EXPECT_EQ(instance->fn().create_device(physical.handle, &info, nullptr, &device), VK_SUCCESS);
    instance->load_device_table(device, vk);
    vk.vkGetDeviceQueue(device, physical.queue_family, 0, &queue);
  }
  void make_buffer(VkDeviceSize bytes) {
    VkBufferCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    info.size = bytes;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
    EXPECT_EQ(vk.vkCreateBuffer(device, &info, nullptr, &buffer), VK_SUCCESS);
    VkMemoryRequirements needs{};
    vk.vkGetBufferMemoryRequirements(device, buffer, &needs);
    VkMemoryAllocateFlagsInfo flags{};
    flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    VkMemoryAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    allocate.pNext = &flags;
    allocate.allocationSize = needs.size;
    while ((needs.memoryTypeBits >> allocate.memoryTypeIndex & 1) == 0) ++allocate.memoryTypeIndex;
    EXPECT_EQ(vk.vkAllocateMemory(device, &allocate, nullptr, &memory), VK_SUCCESS);
    EXPECT_EQ(vk.vkBindBufferMemory(device, buffer, memory, 0), VK_SUCCESS);
  }
  VkSemaphore make_semaphore() {
    VkSemaphoreTypeCreateInfo type{};
    type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    VkSemaphoreCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
    info.pNext = &type;
    EXPECT_EQ(vk.vkCreateSemaphore(device, &info, nullptr, &semaphores.emplace_back()), VK_SUCCESS);
    return semaphores.back();
  }
  void signal(VkSemaphore semaphore, uint64_t value) const {
    VkSemaphoreSignalInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO;
    info.semaphore = semaphore;
    info.value = value;
    EXPECT_EQ(vk.vkSignalSemaphore(device, &info), VK_SUCCESS);
  }
  bool wait_for(VkSemaphore semaphore, uint64_t value, uint64_t timeout_ns) const {
    VkSemaphoreWaitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    info.semaphoreCount = 1;
    info.pSemaphores = &semaphore;
    info.pValues = &value;
    return vk.vkWaitSemaphores(device, &info, timeout_ns) == VK_SUCCESS;
  }
  ~VulkanApplication() {
    for (const VkSemaphore s : semaphores) vk.vkDestroySemaphore(device, s, nullptr);
    vk.vkDestroyBuffer(device, buffer, nullptr);
    vk.vkFreeMemory(device, memory, nullptr);
    vk.vkDestroyDevice(device, nullptr);
  }
};

}  // namespace

Lender lend_vulkan(size_t index) {
  auto app = std::make_shared<VulkanApplication>(index);
  app->make_buffer(400);
  Lender l;
  l.options.vulkan.instance = app->instance->handle();
  l.options.vulkan.physical_device = app->physical.handle;
  l.options.vulkan.device = app->device;
  l.options.vulkan.queue = app->queue;
  l.options.vulkan.queue_family = app->physical.queue_family;
  l.options.vulkan.lock_queue = [state = app.get()] { ++state->locks; };
  l.options.vulkan.unlock_queue = [state = app.get()] { ++state->unlocks; };
  l.memory = app->buffer;
  l.unharmed = [state = app.get()] {
    return state->vk.vkDeviceWaitIdle(state->device) == VK_SUCCESS && state->locks > 0 &&
           state->locks == state->unlocks;
  };
  l.make_semaphore = [state = app.get()] {
    return std::bit_cast<uint64_t>(state->make_semaphore());
  };
  l.signal = [state = app.get()](uint64_t semaphore, uint64_t value) {
    state->signal(std::bit_cast<VkSemaphore>(semaphore), value);
  };
  l.wait_for = [state = app.get()](uint64_t semaphore, uint64_t value, uint64_t timeout_ns) {
    return state->wait_for(std::bit_cast<VkSemaphore>(semaphore), value, timeout_ns);
  };
  l.keep = app;
  return l;
}

}  // namespace reprise::test
