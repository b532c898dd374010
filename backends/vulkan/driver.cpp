#include "backends/vulkan/driver.h"

namespace reprise::vulkan {

Driver::~Driver() {
  if (!device) return;
  if (pipeline_layout) vk.vkDestroyPipelineLayout(device, pipeline_layout, nullptr);
  if (owned) vk.vkDestroyDevice(device, nullptr);
}

Status Driver::check(VkResult r, const char* call) {
  if (r == VK_SUCCESS) return {};
  if (r == VK_ERROR_DEVICE_LOST) lost = true;
  return {Code::Device, std::string(call) + " failed on " + physical.info.id + " (" +
                            physical.info.name + "): " + name_of(r)};
}

Status Driver::alive() const {
  if (!lost) return {};
  return {Code::Device, physical.info.id + " (" + physical.info.name +
                            ") was lost by an earlier error; open the device again"};
}

Status Driver::submit(VkCommandBuffer commands, VkFence fence) {
  RP_TRY(alive());
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands;
  const std::lock_guard lock(queue_mutex);
  if (lock_queue) lock_queue();
  const VkResult r = vk.vkQueueSubmit(queue, 1, &info, fence);
  if (unlock_queue) unlock_queue();
  ++counters.submits;
  return check(r, "vkQueueSubmit");
}

}  // namespace reprise::vulkan
