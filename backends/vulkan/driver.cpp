#include "backends/vulkan/driver.h"

#include <array>
#include <cstring>
#include <new>

namespace reprise::vulkan {

Driver::~Driver() {
  if (!device) return;
  if (runs.given_up()) {
    instance->keep();
    return;
  }
  if (pipeline_layout) vk.vkDestroyPipelineLayout(device, pipeline_layout, nullptr);
  if (owned) vk.vkDestroyDevice(device, nullptr);
}

namespace {

Code code_of(VkResult r) {
  switch (r) {
    case VK_ERROR_DEVICE_LOST:
      return Code::DeviceLost;
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS:
      return Code::OutOfMemory;
    default:
      return Code::Device;
  }
}

/// Semaphores and their values as vkQueueSubmit takes them.
struct TimelinePoints {
  static constexpr size_t kMost = SubmitSync::kMost;
  std::array<VkSemaphore, kMost> semaphores{};
  std::array<uint64_t, kMost> values{};
  std::array<VkPipelineStageFlags, kMost> stages{};
  uint32_t count = 0;

  Status set(std::span<const SubmitSync::Point> points) {
    if (points.size() > kMost) {
      return {Code::Usage, "a submission waits for and signals at most " + std::to_string(kMost) +
                               " semaphores each"};
    }
    for (const SubmitSync::Point& p : points) {
      if (p.handle == 0) return {Code::Usage, "a semaphore is null"};
      std::memcpy(&semaphores[count], &p.handle, sizeof(VkSemaphore));
      values[count] = p.value;
      stages[count++] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    }
    return {};
  }
};

}  // namespace

Status Driver::check(VkResult r, const char* call) {
  if (r == VK_SUCCESS) return {};
  if (r == VK_ERROR_DEVICE_LOST) lost = true;
  return {code_of(r), std::string(call) + " failed on " + physical.info.id + " (" +
                          physical.info.name + "): " + name_of(r)};
}

Status Driver::alive() const {
  if (!lost) return {};
  if (runs.given_up()) {
    const std::lock_guard lock(mutex_);
    return {Code::DeviceLost, physical.info.id + " (" + physical.info.name +
                                  ") cannot be used since an earlier error (" + given_up_ + "); " +
                                  kGivenUpRemedy};
  }
  return {Code::DeviceLost, physical.info.id + " (" + physical.info.name +
                                ") was lost by an earlier error; open the device again"};
}

void Driver::give_up(uint64_t waited_ns) {
  try {
    const std::lock_guard lock(mutex_);
    if (given_up_.empty()) given_up_ = given_up_text(waited_ns);
  } catch (const std::bad_alloc&) {  // called by destructors: the reason is lost
  }
  runs.give_up();
  lost = true;
}

Status Driver::submit(std::span<const VkCommandBuffer> commands, VkFence fence, SubmittedRun& run,
                      const SubmitSync& sync, uint64_t timeout_ns) {
  RP_TRY(alive());
  if (!sync.empty() && owned) {
    return {Code::Usage,
            "only an application that lends its own Vulkan device has semaphores of this "
            "device"};
  }
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.commandBufferCount = static_cast<uint32_t>(commands.size());
  info.pCommandBuffers = commands.data();
  TimelinePoints waits, signals;
  VkTimelineSemaphoreSubmitInfo values{};
  if (!sync.empty()) {
    RP_TRY(waits.set(sync.waits));
    RP_TRY(signals.set(sync.signals));
    values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    values.waitSemaphoreValueCount = info.waitSemaphoreCount = waits.count;
    values.pWaitSemaphoreValues = waits.values.data();
    values.signalSemaphoreValueCount = info.signalSemaphoreCount = signals.count;
    values.pSignalSemaphoreValues = signals.values.data();
    info.pWaitSemaphores = waits.semaphores.data();
    info.pWaitDstStageMask = waits.stages.data();
    info.pSignalSemaphores = signals.semaphores.data();
    info.pNext = &values;
  }
  const std::lock_guard lock(queue_mutex);
  if (lock_queue) lock_queue();
  const VkResult r = vk.vkQueueSubmit(queue, 1, &info, fence);
  if (unlock_queue) unlock_queue();
  ++counters.submits;
  if (r == VK_SUCCESS) run.submitted(timeout_ns);
  return check(r, "vkQueueSubmit");
}

}  // namespace reprise::vulkan
