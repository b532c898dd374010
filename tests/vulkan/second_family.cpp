#include "second_family.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <random>

namespace reprise::test {
namespace {

using Queue = SecondFamily::Queue;

struct Point {
  VkSemaphore semaphore;
  uint64_t value;
};

struct Pending {
  std::vector<VkCommandBuffer> commands;
  std::vector<Point> waits, signals;
  VkFence fence = VK_NULL_HANDLE;
  double submitted = 0;
};

struct State {
  std::mutex mutex;
  uint32_t queues = 2, family = 0;  // of the second family
  bool one_family = false;
  VkQueue real = VK_NULL_HANDLE;
  std::array<char, 2> handles{};  // whose addresses are the handles of the queues
  std::mt19937_64 random{1};
  bool held = false, no_semaphores = false;
  double launch_time = 1, host_time = 0;
  std::array<std::deque<Pending>, 3> waiting;
  std::array<double, 3> free_at{};
  std::array<std::vector<SecondFamily::Event>, 3> events;
  std::map<VkCommandPool, bool> pools;        // whether it is of the second family
  std::map<VkCommandBuffer, bool> transfers;  // likewise
  std::map<VkCommandBuffer, double> cost;
  std::map<VkSemaphore, std::map<uint64_t, double>> reached;  // values, with their times
  std::map<VkFence, double> signalled;
  vulkan::InstanceTable instance;
  VolkDeviceTable real_table{};

  double time_of(const Point& p) {
    const auto at = reached[p.semaphore].lower_bound(p.value);
    return at == reached[p.semaphore].end() ? -1 : at->second;
  }
  bool can_begin(size_t queue) {
    if (waiting[queue].empty() || (held && queue == Queue::Kernels)) return false;
    const auto& waits = waiting[queue].front().waits;
    return no_semaphores ||
           std::ranges::all_of(waits, [&](const Point& p) { return time_of(p) >= 0; });
  }
  VkResult execute(size_t queue);
  VkResult execute_all();
};

State& state() {
  static auto* const s = new State;
  return *s;
}

VkResult State::execute(size_t queue) {
  Pending p = std::move(waiting[queue].front());
  waiting[queue].pop_front();
  double begin = std::max(free_at[queue], p.submitted), own = 0;
  for (const Point& w : p.waits) begin = std::max(begin, time_of(w));
  for (const VkCommandBuffer c : p.commands) own += cost[c];
  free_at[queue] = begin + own;
  events[queue].push_back({static_cast<Queue>(queue), begin, begin + own});
  if (p.fence) signalled[p.fence] = begin + own;
  // What it waits for was submitted to this queue before, and software executes in order. Mesa 22
  // may use a semaphore that a submission waited for after the submission has ended.
  std::vector<VkSemaphore> signals;
  std::vector<uint64_t> values;
  for (const Point& s : p.signals) {
    // Without semaphores a later value may come first; the device's must not decrease.
    const bool later = time_of(s) < 0;
    reached[s.semaphore][s.value] = begin + own;
    if (!later) continue;
    signals.push_back(s.semaphore);
    values.push_back(s.value);
  }
  VkTimelineSemaphoreSubmitInfo points{};
  points.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  points.signalSemaphoreValueCount = static_cast<uint32_t>(values.size());
  points.pSignalSemaphoreValues = values.data();
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.pNext = &points;
  info.commandBufferCount = static_cast<uint32_t>(p.commands.size());
  info.pCommandBuffers = p.commands.data();
  info.signalSemaphoreCount = points.signalSemaphoreValueCount;
  info.pSignalSemaphores = signals.data();
  return real_table.vkQueueSubmit(real, 1, &info, p.fence);
}

/// Until nothing is left that can begin.
VkResult State::execute_all() {
  while (true) {
    std::vector<size_t> ready;
    for (size_t q = 0; q < waiting.size(); ++q)
      if (can_begin(q)) ready.push_back(q);
    if (ready.empty()) break;
    const VkResult r = execute(ready[random() % ready.size()]);
    if (r != VK_SUCCESS) return r;
  }
  // The end of a run is no longer that of its last submission.
  if (no_semaphores) real_table.vkQueueWaitIdle(real);
  for (size_t q = 0; q < waiting.size(); ++q)
    EXPECT_TRUE(waiting[q].empty() || held) << "queue " << q << " waits for ever";
  return VK_SUCCESS;
}

size_t number_of(VkQueue queue) {
  State& s = state();
  for (size_t i = 0; i < s.handles.size(); ++i)
    if (queue == reinterpret_cast<VkQueue>(&s.handles[i])) return i + 1;
  return Queue::Kernels;
}

VKAPI_ATTR void VKAPI_CALL families(VkPhysicalDevice device, uint32_t* count,
                                    VkQueueFamilyProperties* out) {
  State& s = state();
  uint32_t real = 0;
  s.instance.queue_families(device, &real, nullptr);
  if (out) {
    s.instance.queue_families(device, &real, out);
    if (s.one_family) {
      out[0].queueCount = 1 + s.queues;
      s.family = 0;
      *count = real;
      return;
    }
    out[real] = {};
    out[real].queueFlags = VK_QUEUE_TRANSFER_BIT;
    out[real].queueCount = s.queues;
  }
  s.family = real;
  *count = real + (s.one_family ? 0 : 1);
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical,
                                             const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* callbacks,
                                             VkDevice* out) {
  State& s = state();
  EXPECT_EQ(info->queueCreateInfoCount, s.one_family ? 1U : 2U);
  const VkDeviceQueueCreateInfo& last = info->pQueueCreateInfos[info->queueCreateInfoCount - 1];
  EXPECT_EQ(last.queueFamilyIndex, s.family);
  EXPECT_EQ(last.queueCount, s.queues + (s.one_family ? 1 : 0));
  VkDeviceQueueCreateInfo first = info->pQueueCreateInfos[0];
  first.queueCount = 1;
  VkDeviceCreateInfo real = *info;
  real.queueCreateInfoCount = 1;
  real.pQueueCreateInfos = &first;
  return s.instance.create_device(physical, &real, callbacks, out);
}

VKAPI_ATTR void VKAPI_CALL get_queue(VkDevice device, uint32_t family, uint32_t index,
                                     VkQueue* out) {
  State& s = state();
  const uint32_t first = s.one_family ? 1 : 0;
  if (family == s.family && index >= first) {
    *out = reinterpret_cast<VkQueue>(&s.handles.at(index - first));
    return;
  }
  s.real_table.vkGetDeviceQueue(device, family, index, &s.real);
  *out = s.real;
}

VKAPI_ATTR VkResult VKAPI_CALL create_pool(VkDevice device, const VkCommandPoolCreateInfo* info,
                                           const VkAllocationCallbacks* callbacks,
                                           VkCommandPool* out) {
  State& s = state();
  VkCommandPoolCreateInfo real = *info;
  const bool second = info->queueFamilyIndex == s.family && !s.one_family;
  if (second) real.queueFamilyIndex = 0;
  const VkResult r = s.real_table.vkCreateCommandPool(device, &real, callbacks, out);
  const std::lock_guard lock(s.mutex);
  if (r == VK_SUCCESS) s.pools[*out] = second;
  return r;
}

VKAPI_ATTR VkResult VKAPI_CALL allocate_commands(VkDevice device,
                                                 const VkCommandBufferAllocateInfo* info,
                                                 VkCommandBuffer* out) {
  State& s = state();
  const VkResult r = s.real_table.vkAllocateCommandBuffers(device, info, out);
  const std::lock_guard lock(s.mutex);
  if (r == VK_SUCCESS) s.transfers[*out] = s.pools[info->commandPool];
  return r;
}

VKAPI_ATTR VkResult VKAPI_CALL create_buffer(VkDevice device, const VkBufferCreateInfo* info,
                                             const VkAllocationCallbacks* callbacks,
                                             VkBuffer* out) {
  State& s = state();
  if (s.one_family) {
    EXPECT_EQ(info->sharingMode, VK_SHARING_MODE_EXCLUSIVE);
  } else {
    EXPECT_EQ(info->sharingMode, VK_SHARING_MODE_CONCURRENT);
    EXPECT_EQ(info->queueFamilyIndexCount, 2U);
    EXPECT_EQ(info->pQueueFamilyIndices[1], s.family);
  }
  VkBufferCreateInfo real = *info;
  real.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
  real.queueFamilyIndexCount = 0;
  return s.real_table.vkCreateBuffer(device, &real, callbacks, out);
}

void add_cost(VkCommandBuffer commands, double cost, bool kernel) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.cost[commands] += cost;
  EXPECT_FALSE(kernel && s.transfers[commands]) << "a queue that only transfers has no kernels";
}

VKAPI_ATTR VkResult VKAPI_CALL begin_commands(VkCommandBuffer commands,
                                              const VkCommandBufferBeginInfo* info) {
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    s.cost[commands] = 0;
  }
  return s.real_table.vkBeginCommandBuffer(commands, info);
}

VKAPI_ATTR void VKAPI_CALL copy_buffer(VkCommandBuffer commands, VkBuffer from, VkBuffer to,
                                       uint32_t count, const VkBufferCopy* regions) {
  for (uint32_t i = 0; i < count; ++i)
    add_cost(commands, static_cast<double>(regions[i].size), false);
  state().real_table.vkCmdCopyBuffer(commands, from, to, count, regions);
}

VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z) {
  add_cost(commands, state().launch_time, true);
  state().real_table.vkCmdDispatch(commands, x, y, z);
}

VKAPI_ATTR void VKAPI_CALL dispatch_indirect(VkCommandBuffer commands, VkBuffer buffer,
                                             VkDeviceSize offset) {
  add_cost(commands, state().launch_time, true);
  state().real_table.vkCmdDispatchIndirect(commands, buffer, offset);
}

VKAPI_ATTR void VKAPI_CALL pipeline_barrier(VkCommandBuffer commands, VkPipelineStageFlags from,
                                            VkPipelineStageFlags to, VkDependencyFlags flags,
                                            uint32_t count, const VkMemoryBarrier* barriers,
                                            uint32_t buffer_count,
                                            const VkBufferMemoryBarrier* buffers,
                                            uint32_t image_count,
                                            const VkImageMemoryBarrier* images) {
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    EXPECT_FALSE(s.transfers[commands] &&
                 ((from | to) & VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT) != 0);
  }
  s.real_table.vkCmdPipelineBarrier(commands, from, to, flags, count, barriers, buffer_count,
                                    buffers, image_count, images);
}

const VkTimelineSemaphoreSubmitInfo* values_of(const VkSubmitInfo& info) {
  return static_cast<const VkTimelineSemaphoreSubmitInfo*>(info.pNext);
}

VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count, const VkSubmitInfo* infos,
                                      VkFence fence) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const size_t q = number_of(queue);
  EXPECT_EQ(count, 1U);
  Pending p;
  const VkSubmitInfo& info = infos[0];
  for (uint32_t i = 0; i < info.commandBufferCount; ++i) {
    p.commands.push_back(info.pCommandBuffers[i]);
    const bool transfers = q != Queue::Kernels && !s.one_family;
    EXPECT_EQ(s.transfers[p.commands.back()], transfers) << "of another family";
  }
  for (uint32_t i = 0; i < info.waitSemaphoreCount; ++i)
    p.waits.push_back({info.pWaitSemaphores[i], values_of(info)->pWaitSemaphoreValues[i]});
  for (uint32_t i = 0; i < info.signalSemaphoreCount; ++i)
    p.signals.push_back({info.pSignalSemaphores[i], values_of(info)->pSignalSemaphoreValues[i]});
  p.fence = fence;
  p.submitted = s.host_time;
  s.waiting[q].push_back(std::move(p));
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL wait_for_fences(VkDevice device, uint32_t count,
                                               const VkFence* fences, VkBool32 all, uint64_t ns) {
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    if (const VkResult r = s.execute_all(); r != VK_SUCCESS) return r;
  }
  const VkResult r = s.real_table.vkWaitForFences(device, count, fences, all, ns);
  const std::lock_guard lock(s.mutex);
  if (r == VK_SUCCESS) s.host_time = std::max(s.host_time, s.signalled[fences[0]]);
  return r;
}

VKAPI_ATTR VkResult VKAPI_CALL wait_for_semaphores(VkDevice device, const VkSemaphoreWaitInfo* info,
                                                   uint64_t ns) {
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    if (const VkResult r = s.execute_all(); r != VK_SUCCESS) return r;
  }
  const VkResult r = s.real_table.vkWaitSemaphores(device, info, ns);
  const std::lock_guard lock(s.mutex);
  if (r == VK_SUCCESS)
    s.host_time = std::max(s.host_time, s.time_of({info->pSemaphores[0], info->pValues[0]}));
  return r;
}

VKAPI_ATTR void VKAPI_CALL destroy_semaphore(VkDevice device, VkSemaphore semaphore,
                                             const VkAllocationCallbacks* callbacks) {
  State& s = state();
  s.real_table.vkDestroySemaphore(device, semaphore, callbacks);
  const std::lock_guard lock(s.mutex);
  s.reached.erase(semaphore);  // another one may get its handle
}

}  // namespace

void SecondFamily::reset(uint32_t queues, uint64_t seed, bool one_family) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.queues = queues;
  s.one_family = one_family;
  s.random.seed(seed);
  s.held = s.no_semaphores = false;
  s.launch_time = 1;
  s.host_time = 0;
  s.waiting = {};
  s.free_at = {};
  s.events = {};
  s.pools.clear();
  s.transfers.clear();
  s.cost.clear();
  s.reached.clear();
  s.signalled.clear();
}

void SecondFamily::hook_instance(vulkan::InstanceTable& table) {
  State& s = state();
  s.instance = table;
  table.queue_families = families;
  table.create_device = create_device;
}

void SecondFamily::hook_device(VolkDeviceTable& t) {
  state().real_table = t;
  t.vkGetDeviceQueue = get_queue;
  t.vkCreateCommandPool = create_pool;
  t.vkAllocateCommandBuffers = allocate_commands;
  t.vkCreateBuffer = create_buffer;
  t.vkBeginCommandBuffer = begin_commands;
  t.vkCmdCopyBuffer = copy_buffer;
  t.vkCmdDispatch = dispatch;
  t.vkCmdDispatchIndirect = dispatch_indirect;
  t.vkCmdPipelineBarrier = pipeline_barrier;
  t.vkQueueSubmit = submit;
  t.vkWaitForFences = wait_for_fences;
  t.vkWaitSemaphores = wait_for_semaphores;
  t.vkDestroySemaphore = destroy_semaphore;
}

void SecondFamily::set_launch_time(double time) {
  state().launch_time = time;
}

void SecondFamily::hold_kernels(bool on) {
  const std::lock_guard lock(state().mutex);
  state().held = on;
}

void SecondFamily::ignore_semaphores(bool on) {
  const std::lock_guard lock(state().mutex);
  state().no_semaphores = on;
}

std::vector<SecondFamily::Event> SecondFamily::events(Queue queue) {
  const std::lock_guard lock(state().mutex);
  return state().events.at(queue);
}

void SecondFamily::forget_events() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.events = {};
}

}  // namespace reprise::test
