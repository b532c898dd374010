// An application that already has a Vulkan device.
#include <bit>
#include <cstdlib>
#include <cstring>
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
  VkBuffer readback = VK_NULL_HANDLE;
  VkDeviceMemory readback_memory = VK_NULL_HANDLE;
  std::vector<VkSemaphore> semaphores;
  int locks = 0, unlocks = 0;

  explicit VulkanApplication(size_t index) {
    const bool validation = std::getenv("REPRISE_TEST_VALIDATION") != nullptr;
    instance = *vulkan::Instance::create(
        validation, [](Severity, const std::string& message) { ADD_FAILURE() << message; });
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
    queue_info.queueFamilyIndex = physical.queues.compute;
    queue_info.queueCount = 1;
    queue_info.pQueuePriorities = &priority;
    VkDeviceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.pNext = &address;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue_info;
    EXPECT_EQ(instance->fn().create_device(physical.handle, &info, nullptr, &device), VK_SUCCESS);
    instance->load_device_table(device, vk);
    vk.vkGetDeviceQueue(device, physical.queues.compute, 0, &queue);
  }
  void make_buffer(VkDeviceSize bytes) {
    make_buffer(bytes, false, buffer, memory);
    make_buffer(bytes, true, readback, readback_memory);
  }
  void make_buffer(VkDeviceSize bytes, bool mapped, VkBuffer& made, VkDeviceMemory& of_it) {
    VkBufferCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    info.size = bytes;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
    EXPECT_EQ(vk.vkCreateBuffer(device, &info, nullptr, &made), VK_SUCCESS);
    VkMemoryRequirements needs{};
    vk.vkGetBufferMemoryRequirements(device, made, &needs);
    VkMemoryAllocateFlagsInfo flags{};
    flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    VkMemoryAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    allocate.pNext = &flags;
    allocate.allocationSize = needs.size;
    VkPhysicalDeviceMemoryProperties types{};
    instance->fn().memory_properties(physical.handle, &types);
    const VkMemoryPropertyFlags wanted =
        mapped ? VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT : 0;
    const auto fits = [&](uint32_t type) {
      return (needs.memoryTypeBits >> type & 1) != 0 &&
             (types.memoryTypes[type].propertyFlags & wanted) == wanted;
    };
    while (!fits(allocate.memoryTypeIndex)) ++allocate.memoryTypeIndex;
    EXPECT_EQ(vk.vkAllocateMemory(device, &allocate, nullptr, &of_it), VK_SUCCESS);
    EXPECT_EQ(vk.vkBindBufferMemory(device, made, of_it, 0), VK_SUCCESS);
  }
  std::vector<float> execute(uint32_t word, const std::function<void(void*)>& between, int times) {
    VkCommandPoolCreateInfo pool_info{};
    pool_info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    pool_info.queueFamilyIndex = physical.queues.compute;
    VkCommandPool pool = VK_NULL_HANDLE;
    EXPECT_EQ(vk.vkCreateCommandPool(device, &pool_info, nullptr, &pool), VK_SUCCESS);
    VkCommandBufferAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = pool;
    allocate.commandBufferCount = 1;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    EXPECT_EQ(vk.vkAllocateCommandBuffers(device, &allocate, &commands), VK_SUCCESS);
    VkCommandBufferBeginInfo begin{};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    EXPECT_EQ(vk.vkBeginCommandBuffer(commands, &begin), VK_SUCCESS);
    // No barriers of the application's own: the recorded run has those that it needs.
    vk.vkCmdFillBuffer(commands, buffer, 0, 192, word);
    between(commands);
    const VkBufferCopy region{0, 0, 384};
    vk.vkCmdCopyBuffer(commands, buffer, readback, 1, &region);
    EXPECT_EQ(vk.vkEndCommandBuffer(commands), VK_SUCCESS);
    VkSubmitInfo submit{};
    submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &commands;
    for (int time = 0; time < times; ++time) {
      EXPECT_EQ(vk.vkQueueSubmit(queue, 1, &submit, VK_NULL_HANDLE), VK_SUCCESS);
      EXPECT_EQ(vk.vkQueueWaitIdle(queue), VK_SUCCESS);
    }
    void* mapped = nullptr;
    EXPECT_EQ(vk.vkMapMemory(device, readback_memory, 0, VK_WHOLE_SIZE, 0, &mapped), VK_SUCCESS);
    std::vector<float> out(96);
    std::memcpy(out.data(), mapped, 384);
    vk.vkUnmapMemory(device, readback_memory);
    vk.vkDestroyCommandPool(device, pool, nullptr);
    return out;
  }
  /// Memory that begins in the middle of an allocation, as an allocator of blocks gives it.
  bool allocate(LentMemory& m) {
    VkMemoryAllocateFlagsInfo flags{};
    flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    VkMemoryAllocateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    info.pNext = &flags;
    info.allocationSize = m.bytes + 3 * m.alignment;
    info.memoryTypeIndex = m.type;
    VkDeviceMemory made = VK_NULL_HANDLE;
    if (vk.vkAllocateMemory(device, &info, nullptr, &made) != VK_SUCCESS) return false;
    m.handle = std::bit_cast<uint64_t>(made);
    m.offset = 3 * m.alignment;
    if (m.use == MemoryUse::Device) return true;
    EXPECT_EQ(vk.vkMapMemory(device, made, 0, VK_WHOLE_SIZE, 0, &m.mapped), VK_SUCCESS);
    m.mapped = static_cast<std::byte*>(m.mapped) + m.offset;
    return true;
  }
  void release(const LentMemory& m) const {
    vk.vkFreeMemory(device, std::bit_cast<VkDeviceMemory>(m.handle), nullptr);
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
    vk.vkDestroyBuffer(device, readback, nullptr);
    vk.vkFreeMemory(device, readback_memory, nullptr);
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
  l.options.vulkan.queue_family = app->physical.queues.compute;
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
  l.execute = [state = app.get()](uint32_t word, const std::function<void(void*)>& between,
                                  int times) { return state->execute(word, between, times); };
  l.allocate = [state = app.get()](LentMemory& m) { return state->allocate(m); };
  l.release = [state = app.get()](const LentMemory& m) { state->release(m); };
  l.keep = app;
  return l;
}

}  // namespace reprise::test
