#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <atomic>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tests/probes/layer/faults.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Fault {
  enum class Kind : uint8_t { Opcode, Constant, Short, Skip, Lost, Hide } kind = Kind::Opcode;
  uint32_t from = 0, to = 0;  // opcodes, bits of floats; submissions
  std::string kernel;         // empty: any; of Hide: the feature
};

struct InstanceTable {
  PFN_vkGetInstanceProcAddr get = nullptr;
  PFN_vkDestroyInstance destroy = nullptr;
  PFN_vkGetPhysicalDeviceFeatures2 features = nullptr;
  PFN_vkGetPhysicalDeviceProperties properties = nullptr;
  PFN_vkGetPhysicalDeviceProperties2 properties2 = nullptr;
};

struct DeviceTable {
  PFN_vkGetDeviceProcAddr get = nullptr;
  PFN_vkDestroyDevice destroy = nullptr;
  PFN_vkCreateShaderModule create_module = nullptr;
  PFN_vkCreateComputePipelines create_pipelines = nullptr;
  PFN_vkCmdBindPipeline bind_pipeline = nullptr;
  PFN_vkCmdDispatch dispatch = nullptr;
  PFN_vkQueueSubmit submit = nullptr;
  PFN_vkQueueWaitIdle queue_wait = nullptr;
  PFN_vkDeviceWaitIdle device_wait = nullptr;
  PFN_vkWaitForFences fence_wait = nullptr;
  PFN_vkGetFenceStatus fence_status = nullptr;
  PFN_vkWaitSemaphores semaphore_wait = nullptr;
  PFN_vkGetSemaphoreCounterValue semaphore_value = nullptr;
  bool is_lost = false;
};

/// Everything that the layer knows. Dispatchable handles begin with a pointer that all handles of
/// one instance or device share.
struct State {
  std::mutex mutex;
  std::vector<Fault> faults;
  unsigned count = 0;
  unsigned submissions = 0;
  std::map<void*, InstanceTable> instances;
  std::map<void*, DeviceTable> devices;
  std::map<VkShaderModule, std::string> modules;  // names of kernels
  std::map<VkPipeline, std::string> pipelines;
  std::map<VkCommandBuffer, std::string> bound;
};

State& state() {
  static State s;
  return s;
}

void* key_of(void* handle) {
  return *static_cast<void**>(handle);
}

bool read_number(const std::string& text, bool real, uint32_t& out) {
  if (text.empty()) return false;
  if (real) {
    char* end = nullptr;
    out = std::bit_cast<uint32_t>(std::strtof(text.c_str(), &end));
    return *end == 0;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse(const std::string& word, Fault& fault) {
  std::vector<std::string> parts(1);
  for (const char c : word) {
    if (c == ':') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  const size_t n = parts.size();
  const bool real = parts[0] == "constant";
  if (parts[0] == "opcode" || real) {
    fault.kind = real ? Fault::Kind::Constant : Fault::Kind::Opcode;
    if (n == 4) fault.kernel = parts[3];
    return (n == 3 || n == 4) && read_number(parts[1], real, fault.from) &&
           read_number(parts[2], real, fault.to);
  }
  if (parts[0] == "short" && n == 2) {
    fault.kind = Fault::Kind::Short;
    fault.kernel = parts[1];
    return true;
  }
  if (parts[0] == "hide" && n == 2) {
    fault.kind = Fault::Kind::Hide;
    fault.kernel = parts[1];
    return parts[1] == "buffer-addresses" || parts[1] == "update-after-bind" ||
           parts[1] == "vulkan-1.2" || parts[1] == "large-buffers";
  }
  fault.kind = parts[0] == "skip" ? Fault::Kind::Skip : Fault::Kind::Lost;
  return (parts[0] == "skip" || parts[0] == "lost") && n == 2 &&
         read_number(parts[1], false, fault.from) && fault.from > 0;
}

bool parse_all(const char* text, std::vector<Fault>& faults) {
  std::string word;
  for (const char* c = text;; ++c) {
    if (*c != ' ' && *c != 0) {
      word += *c;
      continue;
    }
    if (!word.empty()) {
      faults.emplace_back();
      if (!parse(word, faults.back())) return false;
      word.clear();
    }
    if (*c == 0) return true;
  }
}

/// Calls `f` with opcode and words of each instruction of a SPIR-V module.
template <typename F>
void each_instruction(std::span<uint32_t> words, const F& f) {
  constexpr size_t kHeader = 5;
  for (size_t i = kHeader; i < words.size();) {
    const size_t n = words[i] >> 16U;
    if (n == 0 || i + n > words.size()) return;
    f(words[i] & 0xffffU, words.subspan(i, n));
    i += n;
  }
}

std::string text_of(std::span<const uint32_t> words) {
  const auto* begin = reinterpret_cast<const char*>(words.data());
  return {begin, strnlen(begin, words.size_bytes())};
}

/// The name of the entry point's function, which our emitter gives it.
std::string kernel_of(std::span<uint32_t> words) {
  constexpr uint32_t kName = 5, kEntryPoint = 15;
  uint32_t entry = 0;
  std::map<uint32_t, std::string> names;
  each_instruction(words, [&](uint32_t opcode, std::span<uint32_t> w) {
    if (opcode == kEntryPoint) entry = w[2];
    if (opcode == kName) names[w[1]] = text_of(w.subspan(2));
  });
  return names[entry];
}

bool change_opcodes(const Fault& f, std::span<uint32_t> words) {
  bool done = false;
  each_instruction(words, [&](uint32_t opcode, std::span<uint32_t> w) {
    if (opcode != f.from) return;
    w[0] = (w[0] & 0xffff0000U) | f.to;
    done = true;
  });
  return done;
}

bool change_constants(const Fault& f, std::span<uint32_t> words) {
  constexpr uint32_t kTypeFloat = 22, kConstant = 43;
  uint32_t type = 0;
  bool done = false;
  each_instruction(words, [&](uint32_t opcode, std::span<uint32_t> w) {
    if (opcode == kTypeFloat && w[2] == 32) type = w[1];
    if (opcode != kConstant || w[1] != type || w[3] != f.from) return;
    w[3] = f.to;
    done = true;
  });
  return done;
}

DeviceTable table_of(void* handle) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.devices[key_of(handle)];
}

VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice device, const VkShaderModuleCreateInfo* info,
                                             const VkAllocationCallbacks* allocator,
                                             VkShaderModule* out) {
  const DeviceTable table = table_of(device);
  std::vector<uint32_t> words(info->pCode, info->pCode + info->codeSize / sizeof(uint32_t));
  const std::string name = kernel_of(words);
  VkShaderModuleCreateInfo own = *info;
  own.pCode = words.data();
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    for (const Fault& f : s.faults) {
      if (!f.kernel.empty() && f.kernel != name) continue;
      if (f.kind == Fault::Kind::Opcode && change_opcodes(f, words)) ++s.count;
      if (f.kind == Fault::Kind::Constant && change_constants(f, words)) ++s.count;
    }
  }
  const VkResult r = table.create_module(device, &own, allocator, out);
  const std::lock_guard lock(s.mutex);
  if (r == VK_SUCCESS) s.modules[*out] = name;
  return r;
}

VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache, uint32_t n,
                                                const VkComputePipelineCreateInfo* infos,
                                                const VkAllocationCallbacks* allocator,
                                                VkPipeline* out) {
  const VkResult r = table_of(device).create_pipelines(device, cache, n, infos, allocator, out);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (uint32_t i = 0; r == VK_SUCCESS && i < n; ++i)
    s.pipelines[out[i]] = s.modules[infos[i].stage.module];
  return r;
}

VKAPI_ATTR void VKAPI_CALL bind_pipeline(VkCommandBuffer commands, VkPipelineBindPoint point,
                                         VkPipeline pipeline) {
  table_of(commands).bind_pipeline(commands, point, pipeline);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.bound[commands] = s.pipelines[pipeline];
}

VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z) {
  const DeviceTable table = table_of(commands);
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    for (const Fault& f : s.faults) {
      if (f.kind != Fault::Kind::Short || f.kernel != s.bound[commands] || x == 0) continue;
      --x;
      ++s.count;
    }
  }
  table.dispatch(commands, x, y, z);
}

VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t n, const VkSubmitInfo* infos,
                                      VkFence fence) {
  std::vector<VkSubmitInfo> own(infos, infos + n);
  State& s = state();
  DeviceTable table;
  {
    const std::lock_guard lock(s.mutex);
    DeviceTable& device = s.devices[key_of(queue)];
    if (!device.is_lost) ++s.submissions;
    for (const Fault& f : s.faults) {
      if (device.is_lost || f.from == 0 || s.submissions % f.from != 0) continue;
      if (f.kind == Fault::Kind::Skip)
        for (VkSubmitInfo& info : own) info.commandBufferCount = 0;
      if (f.kind == Fault::Kind::Lost) device.is_lost = true;
      if (f.kind == Fault::Kind::Skip || f.kind == Fault::Kind::Lost) ++s.count;
    }
    table = device;
  }
  if (!table.is_lost) return table.submit(queue, n, own.data(), fence);
  table.queue_wait(queue);  // what was submitted before ends, so that memory can be freed
  return VK_ERROR_DEVICE_LOST;
}

// Nothing is waited for on a lost device: it may never have been submitted.
VKAPI_ATTR VkResult VKAPI_CALL queue_wait(VkQueue queue) {
  const DeviceTable table = table_of(queue);
  return table.is_lost ? VK_ERROR_DEVICE_LOST : table.queue_wait(queue);
}

VKAPI_ATTR VkResult VKAPI_CALL device_wait(VkDevice device) {
  const DeviceTable table = table_of(device);
  return table.is_lost ? VK_ERROR_DEVICE_LOST : table.device_wait(device);
}

VKAPI_ATTR VkResult VKAPI_CALL fence_wait(VkDevice device, uint32_t n, const VkFence* fences,
                                          VkBool32 all, uint64_t timeout) {
  const DeviceTable table = table_of(device);
  return table.is_lost ? VK_ERROR_DEVICE_LOST : table.fence_wait(device, n, fences, all, timeout);
}

VKAPI_ATTR VkResult VKAPI_CALL fence_status(VkDevice device, VkFence fence) {
  const DeviceTable table = table_of(device);
  return table.is_lost ? VK_ERROR_DEVICE_LOST : table.fence_status(device, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL semaphore_wait(VkDevice device, const VkSemaphoreWaitInfo* info,
                                              uint64_t timeout) {
  const DeviceTable table = table_of(device);
  return table.is_lost ? VK_ERROR_DEVICE_LOST : table.semaphore_wait(device, info, timeout);
}

VKAPI_ATTR VkResult VKAPI_CALL semaphore_value(VkDevice device, VkSemaphore semaphore,
                                               uint64_t* value) {
  const DeviceTable table = table_of(device);
  return table.is_lost ? VK_ERROR_DEVICE_LOST : table.semaphore_value(device, semaphore, value);
}

/// What the loader put into the chain of a create info.
template <typename Info, typename CreateInfo>
Info* link_of(const CreateInfo* info, VkStructureType type) {
  auto* i = static_cast<Info*>(const_cast<void*>(info->pNext));
  while (i && !(i->sType == type && i->function == VK_LAYER_LINK_INFO))
    i = static_cast<Info*>(const_cast<void*>(i->pNext));
  return i;
}

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info,
                                               const VkAllocationCallbacks* allocator,
                                               VkInstance* out) {
  auto* link =
      link_of<VkLayerInstanceCreateInfo>(info, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
  if (!link) return VK_ERROR_INITIALIZATION_FAILED;
  const PFN_vkGetInstanceProcAddr get = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(get(nullptr, "vkCreateInstance"));
  const VkResult r = create(info, allocator, out);
  if (r != VK_SUCCESS) return r;
  InstanceTable t;
  t.get = get;
  const auto load = [&](auto& pointer, const char* name) {
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(get(*out, name));
  };
  load(t.destroy, "vkDestroyInstance");
  load(t.features, "vkGetPhysicalDeviceFeatures2");
  load(t.properties, "vkGetPhysicalDeviceProperties");
  load(t.properties2, "vkGetPhysicalDeviceProperties2");
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.instances[key_of(*out)] = t;
  return r;
}

VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance instance,
                                            const VkAllocationCallbacks* allocator) {
  if (!instance) return;
  State& s = state();
  InstanceTable table;
  {
    const std::lock_guard lock(s.mutex);
    table = s.instances[key_of(instance)];
    s.instances.erase(key_of(instance));
  }
  table.destroy(instance, allocator);
}

InstanceTable instance_table_of(void* handle) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.instances[key_of(handle)];
}

bool hides(const char* feature) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (const Fault& f : s.faults)
    if (f.kind == Fault::Kind::Hide && f.kernel == feature) return true;
  return false;
}

VKAPI_ATTR void VKAPI_CALL get_features(VkPhysicalDevice physical, VkPhysicalDeviceFeatures2* all) {
  instance_table_of(physical).features(physical, all);
  const bool no_addresses = hides("buffer-addresses"), no_updates = hides("update-after-bind");
  for (auto* next = static_cast<VkBaseOutStructure*>(all->pNext); next; next = next->pNext) {
    auto* v12 = reinterpret_cast<VkPhysicalDeviceVulkan12Features*>(next);
    auto* address = reinterpret_cast<VkPhysicalDeviceBufferDeviceAddressFeatures*>(next);
    auto* indexing = reinterpret_cast<VkPhysicalDeviceDescriptorIndexingFeatures*>(next);
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES) {
      if (no_addresses) v12->bufferDeviceAddress = VK_FALSE;
      if (no_updates) v12->descriptorBindingStorageBufferUpdateAfterBind = VK_FALSE;
    }
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES &&
        no_addresses)
      address->bufferDeviceAddress = VK_FALSE;
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DESCRIPTOR_INDEXING_FEATURES && no_updates)
      indexing->descriptorBindingStorageBufferUpdateAfterBind = VK_FALSE;
  }
}

void hide_version(VkPhysicalDeviceProperties& properties) {
  if (hides("vulkan-1.2") && properties.apiVersion >= VK_API_VERSION_1_2)
    properties.apiVersion = VK_API_VERSION_1_1;
}

VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice physical,
                                          VkPhysicalDeviceProperties* out) {
  instance_table_of(physical).properties(physical, out);
  hide_version(*out);
}

/// Neither memory nor buffers may have more than a megabyte.
void limit_buffers(VkPhysicalDeviceProperties2& all) {
  constexpr VkDeviceSize kMost = VkDeviceSize{1} << 20;
  for (auto* next = static_cast<VkBaseOutStructure*>(all.pNext); next; next = next->pNext) {
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES)
      reinterpret_cast<VkPhysicalDeviceMaintenance3Properties*>(next)->maxMemoryAllocationSize =
          kMost;
  }
}

VKAPI_ATTR void VKAPI_CALL get_properties2(VkPhysicalDevice physical,
                                           VkPhysicalDeviceProperties2* out) {
  instance_table_of(physical).properties2(physical, out);
  hide_version(out->properties);
  if (hides("large-buffers")) limit_buffers(*out);
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical,
                                             const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* allocator,
                                             VkDevice* out) {
  auto* link = link_of<VkLayerDeviceCreateInfo>(info, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
  if (!link) return VK_ERROR_INITIALIZATION_FAILED;
  const PFN_vkGetInstanceProcAddr get = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  DeviceTable t;
  t.get = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const auto create = reinterpret_cast<PFN_vkCreateDevice>(get(nullptr, "vkCreateDevice"));
  const VkResult r = create(physical, info, allocator, out);
  if (r != VK_SUCCESS) return r;
  const auto load = [&](auto& pointer, const char* name) {
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(t.get(*out, name));
  };
  load(t.destroy, "vkDestroyDevice");
  load(t.create_module, "vkCreateShaderModule");
  load(t.create_pipelines, "vkCreateComputePipelines");
  load(t.bind_pipeline, "vkCmdBindPipeline");
  load(t.dispatch, "vkCmdDispatch");
  load(t.submit, "vkQueueSubmit");
  load(t.queue_wait, "vkQueueWaitIdle");
  load(t.device_wait, "vkDeviceWaitIdle");
  load(t.fence_wait, "vkWaitForFences");
  load(t.fence_status, "vkGetFenceStatus");
  load(t.semaphore_wait, "vkWaitSemaphores");
  load(t.semaphore_value, "vkGetSemaphoreCounterValue");
  if (!t.semaphore_wait) load(t.semaphore_wait, "vkWaitSemaphoresKHR");
  if (!t.semaphore_value) load(t.semaphore_value, "vkGetSemaphoreCounterValueKHR");
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.devices[key_of(*out)] = t;
  return r;
}

VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks* allocator) {
  if (!device) return;
  const DeviceTable table = table_of(device);
  {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    s.devices.erase(key_of(device));
  }
  table.destroy(device, allocator);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_proc_addr(VkDevice device, const char* name);
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_proc_addr(VkInstance instance,
                                                                const char* name);

PFN_vkVoidFunction own_function(const char* name, bool of_instance) {
  struct Entry {
    const char* name;
    PFN_vkVoidFunction function;
    bool of_instance;
  };
#define ENTRY(name, function, of_instance) \
  { name, reinterpret_cast<PFN_vkVoidFunction>(function), of_instance }
  static const Entry kEntries[] = {
      ENTRY("vkGetInstanceProcAddr", get_instance_proc_addr, true),
      ENTRY("vkCreateInstance", create_instance, true),
      ENTRY("vkDestroyInstance", destroy_instance, true),
      ENTRY("vkCreateDevice", create_device, true),
      ENTRY("vkGetPhysicalDeviceFeatures2", get_features, true),
      ENTRY("vkGetPhysicalDeviceProperties", get_properties, true),
      ENTRY("vkGetPhysicalDeviceProperties2", get_properties2, true),
      ENTRY("vkGetDeviceProcAddr", get_device_proc_addr, false),
      ENTRY("vkDestroyDevice", destroy_device, false),
      ENTRY("vkCreateShaderModule", create_module, false),
      ENTRY("vkCreateComputePipelines", create_pipelines, false),
      ENTRY("vkCmdBindPipeline", bind_pipeline, false),
      ENTRY("vkCmdDispatch", dispatch, false),
      ENTRY("vkQueueSubmit", submit, false),
      ENTRY("vkQueueWaitIdle", queue_wait, false),
      ENTRY("vkDeviceWaitIdle", device_wait, false),
      ENTRY("vkWaitForFences", fence_wait, false),
      ENTRY("vkGetFenceStatus", fence_status, false),
      ENTRY("vkWaitSemaphores", semaphore_wait, false),
      ENTRY("vkWaitSemaphoresKHR", semaphore_wait, false),
      ENTRY("vkGetSemaphoreCounterValue", semaphore_value, false),
      ENTRY("vkGetSemaphoreCounterValueKHR", semaphore_value, false),
  };
#undef ENTRY
  for (const Entry& e : kEntries) {
    if (std::strcmp(e.name, name) == 0 && (of_instance || !e.of_instance)) return e.function;
  }
  return nullptr;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_proc_addr(VkDevice device, const char* name) {
  const PFN_vkVoidFunction driver = table_of(device).get(device, name);
  const PFN_vkVoidFunction own = own_function(name, false);
  return own && driver ? own : driver;  // what the device lacks stays missing
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_proc_addr(VkInstance instance,
                                                                const char* name) {
  const PFN_vkVoidFunction own = own_function(name, true);
  if (own || !instance) return own;
  PFN_vkGetInstanceProcAddr get = nullptr;
  {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    get = s.instances[key_of(instance)].get;
  }
  return get(instance, name);
}

}  // namespace

EXPORT int reprise_faults_set(const char* text) {
  std::vector<Fault> faults;
  const bool sound = parse_all(text, faults);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.faults = sound ? std::move(faults) : std::vector<Fault>();
  s.count = 0;
  s.submissions = 0;
  return sound ? 1 : 0;
}

EXPORT unsigned reprise_faults_count() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.count;
}

EXPORT VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface* version) {
  constexpr uint32_t kVersion = 2;
  if (version->loaderLayerInterfaceVersion < kVersion) return VK_ERROR_INITIALIZATION_FAILED;
  version->loaderLayerInterfaceVersion = kVersion;
  version->pfnGetInstanceProcAddr = get_instance_proc_addr;
  version->pfnGetDeviceProcAddr = get_device_proc_addr;
  version->pfnGetPhysicalDeviceProcAddr = nullptr;
  const char* faults = std::getenv("REPRISE_FAULTS");
  if (faults && !reprise_faults_set(faults)) return VK_ERROR_INITIALIZATION_FAILED;
  return VK_SUCCESS;
}
