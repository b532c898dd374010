#include "intercept.h"

#include <cstring>
#include <mutex>
#include <type_traits>
#include <vector>

namespace reprise::test {
namespace {

// What a call of the function means for the counts.
enum class Kind { Other, Create, Destroy, Submit, Dispatch, Barrier, Copy };

void note(Kind kind) {
  Calls& c = calls();
  ++c.all;
  switch (kind) {
    case Kind::Create:
      ++c.created;
      break;
    case Kind::Destroy:
      ++c.destroyed;
      break;
    case Kind::Submit:
      ++c.submits;
      break;
    case Kind::Dispatch:
      ++c.dispatches;
      break;
    case Kind::Barrier:
      ++c.barriers;
      break;
    case Kind::Copy:
      ++c.copies;
      break;
    case Kind::Other:
      break;
  }
}

template <auto Member, Kind K, typename Function>
struct Interceptor;

template <auto Member, Kind K, typename R, typename... Args>
struct Interceptor<Member, K, R(VKAPI_PTR*)(Args...)> {
  static inline R(VKAPI_PTR* real)(Args...) = nullptr;

  static VKAPI_ATTR R VKAPI_CALL call(Args... args) {
    if constexpr (std::is_same_v<R, VkResult>) {
      if (calls().fails()) return static_cast<VkResult>(calls().error.load());
      const VkResult r = real(args...);
      note(r == VK_SUCCESS || K != Kind::Create ? K : Kind::Other);
      return r;
    } else {
      note(K);
      return real(args...);
    }
  }
};

template <auto Member, Kind K = Kind::Other>
void wrap(VolkDeviceTable& table) {
  using Function = std::remove_reference_t<decltype(table.*Member)>;
  using I = Interceptor<Member, K, Function>;
  I::real = table.*Member;
  table.*Member = I::call;
}

// The memory type that is not there, and the real one that it stands for.
struct HiddenMemory {
  uint32_t type = 0, real = 0;
  PFN_vkAllocateMemory allocate = nullptr;
  PFN_vkGetBufferMemoryRequirements requirements = nullptr;
};
HiddenMemory& hidden() {
  static HiddenMemory h;
  return h;
}

VKAPI_ATTR VkResult VKAPI_CALL allocate_hidden(VkDevice device, const VkMemoryAllocateInfo* info,
                                               const VkAllocationCallbacks* callbacks,
                                               VkDeviceMemory* out) {
  VkMemoryAllocateInfo real = *info;
  if (real.memoryTypeIndex == hidden().type) real.memoryTypeIndex = hidden().real;
  return hidden().allocate(device, &real, callbacks, out);
}

VKAPI_ATTR void VKAPI_CALL requirements_hidden(VkDevice device, VkBuffer buffer,
                                               VkMemoryRequirements* out) {
  hidden().requirements(device, buffer, out);
  out->memoryTypeBits |= 1U << hidden().type;
}

struct MockCache {
  std::mutex mutex;
  std::vector<std::byte> data;
  uint64_t initial = 0;
  VkPhysicalDeviceProperties properties{};
  PFN_vkCreatePipelineCache create = nullptr;
  PFN_vkCreateComputePipelines pipelines = nullptr;
};
MockCache& mock() {
  static MockCache m;
  return m;
}

VKAPI_ATTR VkResult VKAPI_CALL create_cache(VkDevice device, const VkPipelineCacheCreateInfo* info,
                                            const VkAllocationCallbacks* callbacks,
                                            VkPipelineCache* out) {
  MockCache& m = mock();
  const std::lock_guard lock(m.mutex);
  m.initial = info->initialDataSize;
  if (info->initialDataSize > 0) {
    const auto* bytes = static_cast<const std::byte*>(info->pInitialData);
    m.data.assign(bytes, bytes + info->initialDataSize);
  } else {
    VkPipelineCacheHeaderVersionOne h{};
    h.headerSize = sizeof(h);
    h.headerVersion = VK_PIPELINE_CACHE_HEADER_VERSION_ONE;
    h.vendorID = m.properties.vendorID;
    h.deviceID = m.properties.deviceID;
    std::memcpy(h.pipelineCacheUUID, m.properties.pipelineCacheUUID, VK_UUID_SIZE);
    m.data.resize(sizeof(h));
    std::memcpy(m.data.data(), &h, sizeof(h));
  }
  VkPipelineCacheCreateInfo empty = *info;
  empty.initialDataSize = 0;
  return m.create(device, &empty, callbacks, out);
}

VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache, uint32_t n,
                                                const VkComputePipelineCreateInfo* infos,
                                                const VkAllocationCallbacks* callbacks,
                                                VkPipeline* out) {
  MockCache& m = mock();
  {
    const std::lock_guard lock(m.mutex);
    m.data.push_back(std::byte{1});
  }
  return m.pipelines(device, cache, n, infos, callbacks, out);
}

VKAPI_ATTR VkResult VKAPI_CALL cache_data(VkDevice, VkPipelineCache, size_t* size, void* out) {
  MockCache& m = mock();
  const std::lock_guard lock(m.mutex);
  if (out) std::memcpy(out, m.data.data(), std::min(*size, m.data.size()));
  *size = m.data.size();
  return VK_SUCCESS;
}

}  // namespace

Calls& calls() {
  static Calls c;
  return c;
}

void Calls::reset() {
  all = submits = dispatches = barriers = copies = created = destroyed = 0;
  fail_after = -1;
  failed = false;
  error = VK_ERROR_OUT_OF_HOST_MEMORY;
}

bool Calls::fails() {
  int64_t left = fail_after;
  while (left >= 0 && !fail_after.compare_exchange_weak(left, left - 1)) {
  }
  if (left != 0) return false;
  failed = true;
  return true;
}

void intercept(VolkDeviceTable& t) {
  using T = VolkDeviceTable;
  wrap<&T::vkCreateBuffer, Kind::Create>(t);
  wrap<&T::vkDestroyBuffer, Kind::Destroy>(t);
  wrap<&T::vkAllocateMemory, Kind::Create>(t);
  wrap<&T::vkFreeMemory, Kind::Destroy>(t);
  wrap<&T::vkCreateShaderModule, Kind::Create>(t);
  wrap<&T::vkDestroyShaderModule, Kind::Destroy>(t);
  wrap<&T::vkCreateComputePipelines, Kind::Create>(t);
  wrap<&T::vkDestroyPipeline, Kind::Destroy>(t);
  wrap<&T::vkCreatePipelineLayout, Kind::Create>(t);
  wrap<&T::vkDestroyPipelineLayout, Kind::Destroy>(t);
  wrap<&T::vkCreatePipelineCache, Kind::Create>(t);
  wrap<&T::vkDestroyPipelineCache, Kind::Destroy>(t);
  wrap<&T::vkCreateCommandPool, Kind::Create>(t);
  wrap<&T::vkDestroyCommandPool, Kind::Destroy>(t);
  wrap<&T::vkCreateFence, Kind::Create>(t);
  wrap<&T::vkDestroyFence, Kind::Destroy>(t);
  wrap<&T::vkCreateSemaphore, Kind::Create>(t);
  wrap<&T::vkDestroySemaphore, Kind::Destroy>(t);
  wrap<&T::vkCreateQueryPool, Kind::Create>(t);
  wrap<&T::vkDestroyQueryPool, Kind::Destroy>(t);
  wrap<&T::vkBindBufferMemory>(t);
  wrap<&T::vkMapMemory>(t);
  wrap<&T::vkAllocateCommandBuffers>(t);
  wrap<&T::vkBeginCommandBuffer>(t);
  wrap<&T::vkEndCommandBuffer>(t);
  wrap<&T::vkResetFences>(t);
  wrap<&T::vkWaitForFences>(t);
  wrap<&T::vkWaitSemaphores>(t);
  wrap<&T::vkGetQueryPoolResults>(t);
  wrap<&T::vkGetPipelineCacheData>(t);
  wrap<&T::vkQueueSubmit, Kind::Submit>(t);
  wrap<&T::vkCmdDispatch, Kind::Dispatch>(t);
  wrap<&T::vkCmdDispatchBase, Kind::Dispatch>(t);
  wrap<&T::vkCmdDispatchIndirect, Kind::Dispatch>(t);
  wrap<&T::vkCmdPipelineBarrier, Kind::Barrier>(t);
  wrap<&T::vkCmdCopyBuffer, Kind::Copy>(t);
}

BorrowedVulkan lend(const vulkan::Driver& owner) {
  BorrowedVulkan lent;
  lent.instance = owner.instance->handle();
  lent.physical_device = owner.physical.handle;
  lent.device = owner.device;
  lent.queue = owner.queue;
  lent.queue_family = owner.queue_family;
  lent.no_buffer_address = owner.uses_descriptors();
  lent.upload_queue = owner.upload_queue;
  lent.download_queue = owner.download_queue;
  lent.transfer_queue_family = owner.physical.queues.transfer;
  return lent;
}

void hide_device_memory(vulkan::Driver& driver) {
  HiddenMemory& h = hidden();
  VkPhysicalDeviceMemoryProperties& memory = driver.memory;
  h.type = memory.memoryTypeCount++;
  h.real = 0;
  memory.memoryTypes[h.type].heapIndex = memory.memoryTypes[h.real].heapIndex;
  memory.memoryTypes[h.type].propertyFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  driver.physical.info.facts.kind = DeviceKind::DiscreteGpu;
  h.allocate = driver.vk.vkAllocateMemory;
  h.requirements = driver.vk.vkGetBufferMemoryRequirements;
  driver.vk.vkAllocateMemory = allocate_hidden;
  driver.vk.vkGetBufferMemoryRequirements = requirements_hidden;
}

void mock_pipeline_cache(VolkDeviceTable& table, const VkPhysicalDeviceProperties& properties) {
  MockCache& m = mock();
  m.properties = properties;
  m.create = table.vkCreatePipelineCache;
  m.pipelines = table.vkCreateComputePipelines;
  table.vkCreatePipelineCache = create_cache;
  table.vkCreateComputePipelines = create_pipelines;
  table.vkGetPipelineCacheData = cache_data;
}

uint64_t initial_cache_bytes() {
  return mock().initial;
}

}  // namespace reprise::test
