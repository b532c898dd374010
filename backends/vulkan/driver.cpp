#include "backends/vulkan/driver.h"

#include <algorithm>
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
  for (const TransferCount& t : transfers_)
    if (t.semaphore) vk.vkDestroySemaphore(device, t.semaphore, nullptr);
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
  static constexpr size_t kMost = SubmitSync::kMost + 3;
  std::array<VkSemaphore, kMost> semaphores{};
  std::array<uint64_t, kMost> values{};
  std::array<VkPipelineStageFlags, kMost> stages{};
  uint32_t count = 0;

  void add(VkSemaphore semaphore, uint64_t value) {
    semaphores[count] = semaphore;
    values[count] = value;
    stages[count++] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  }
  void add(std::span<const SubmitSync::Point> points) {
    for (const SubmitSync::Point& p : points) {
      VkSemaphore semaphore = VK_NULL_HANDLE;
      // NOLINTNEXTLINE(bugprone-sizeof-expression): the handle itself is what is copied
      std::memcpy(&semaphore, &p.handle, sizeof(semaphore));
      add(semaphore, p.value);
    }
  }
};

Status check_points(std::span<const SubmitSync::Point> points) {
  if (points.size() > SubmitSync::kMost) {
    return {Code::Usage, "a submission waits for and signals at most " +
                             std::to_string(SubmitSync::kMost) + " semaphores each"};
  }
  for (const SubmitSync::Point& p : points)
    if (p.handle == 0) return {Code::Usage, "a semaphore is null"};
  return {};
}

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

VkResult Driver::submit_one(const Batch& batch, VkFence fence, const SubmitSync& sync) {
  TimelinePoints waits, signals;
  if (batch.wait != 0) waits.add(batch.semaphore, batch.wait);
  if (batch.signal != 0) signals.add(batch.semaphore, batch.signal);
  const bool runs_kernels = batch.queue == queue;
  if (runs_kernels) {
    // These transfers are complete. The wait makes what they wrote visible to this queue.
    for (const TransferCount& t : transfers_)
      if (t.complete != t.seen) waits.add(t.semaphore, t.complete);
    waits.add(sync.waits);
    signals.add(sync.signals);
  }
  VkTimelineSemaphoreSubmitInfo values{};
  values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  values.waitSemaphoreValueCount = waits.count;
  values.pWaitSemaphoreValues = waits.values.data();
  values.signalSemaphoreValueCount = signals.count;
  values.pSignalSemaphoreValues = signals.values.data();
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  if (waits.count + signals.count > 0) info.pNext = &values;
  info.waitSemaphoreCount = waits.count;
  info.pWaitSemaphores = waits.semaphores.data();
  info.pWaitDstStageMask = waits.stages.data();
  info.commandBufferCount = static_cast<uint32_t>(batch.commands.size());
  info.pCommandBuffers = batch.commands.data();
  info.signalSemaphoreCount = signals.count;
  info.pSignalSemaphores = signals.semaphores.data();
  const VkResult r = vk.vkQueueSubmit(batch.queue, 1, &info, fence);
  ++counters.submits;
  if (r == VK_SUCCESS && runs_kernels)
    for (TransferCount& t : transfers_) t.seen = t.complete;
  return r;
}

Status Driver::submit(std::span<const Batch> batches, VkFence fence, SubmittedRun& run,
                      const SubmitSync& sync, uint64_t timeout_ns, size_t& submitted) {
  submitted = 0;
  RP_TRY(alive());
  if (!sync.empty() && owned) {
    return {Code::Usage,
            "only an application that lends its own Vulkan device has semaphores of this "
            "device"};
  }
  RP_TRY(check_points(sync.waits));
  RP_TRY(check_points(sync.signals));
  VkResult r = VK_SUCCESS;
  // The application's lock comes first: it may be one that this thread holds already.
  if (lock_queue) lock_queue();
  {
    const std::lock_guard lock(queue_mutex);
    for (const Batch& batch : batches) {
      r = submit_one(batch, &batch == &batches.back() ? fence : VK_NULL_HANDLE, sync);
      if (r != VK_SUCCESS) break;
      ++submitted;
    }
  }
  if (unlock_queue) unlock_queue();
  if (submitted > 0) run.submitted(timeout_ns);
  return check(r, "vkQueueSubmit");
}

// Semaphores of queues of their own, because the values of one must increase.
Status Driver::transfer(bool down, VkCommandBuffer commands) {
  RP_TRY(alive());
  const bool second = down && download_queue;
  TransferCount& count = transfers_[second ? 1 : 0];
  uint64_t number = 0;
  {
    const std::lock_guard lock(queue_mutex);
    number = count.submitted + 1;
    const Batch batch{
        second ? download_queue : upload_queue, {&commands, 1}, count.semaphore, 0, number};
    RP_TRY(check(submit_one(batch, VK_NULL_HANDLE, {}), "vkQueueSubmit"));
    count.submitted = number;
  }
  VkResult r = wait_for_transfer(count.semaphore, number);
  const bool known = r == VK_SUCCESS || r == VK_ERROR_DEVICE_LOST;
  if (!known) r = wait_for_transfer(count.semaphore, number);  // the error may be temporary
  // It may use its memory for ever.
  if (r != VK_SUCCESS && r != VK_ERROR_DEVICE_LOST) give_up(runs.patience_ns);
  RP_TRY(check(r, "vkWaitSemaphores").with_context("a transfer"));
  const std::lock_guard lock(queue_mutex);
  count.complete = std::max(count.complete, number);
  return {};
}

VkResult Driver::wait_for_transfer(VkSemaphore semaphore, uint64_t number) const {
  constexpr uint64_t kSliceNs = 100'000'000;
  VkResult r = VK_TIMEOUT;
  while (r == VK_TIMEOUT && !lost) r = wait_for(semaphore, number, kSliceNs);
  return lost ? VK_ERROR_DEVICE_LOST : r;
}

VkResult Driver::wait_for(VkSemaphore semaphore, uint64_t value, uint64_t timeout_ns) const {
  VkSemaphoreWaitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  info.semaphoreCount = 1;
  info.pSemaphores = &semaphore;
  info.pValues = &value;
  return vk.vkWaitSemaphores(device, &info, timeout_ns);
}

Result<VkSemaphore> Driver::make_timeline() {
  VkSemaphoreTypeCreateInfo type{};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  info.pNext = &type;
  VkSemaphore semaphore = VK_NULL_HANDLE;
  RP_TRY(check(vk.vkCreateSemaphore(device, &info, nullptr, &semaphore), "vkCreateSemaphore"));
  return semaphore;
}

Status Driver::make_transfer_semaphores() {
  const VkQueue queues[] = {upload_queue, download_queue};
  for (size_t i = 0; i < transfers_.size(); ++i) {
    if (!queues[i]) continue;
    RP_ASSIGN(transfers_[i].semaphore, make_timeline());
  }
  return {};
}

}  // namespace reprise::vulkan
