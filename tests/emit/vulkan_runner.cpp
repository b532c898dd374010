#include "tests/emit/vulkan_runner.h"

#define VOLK_IMPLEMENTATION
#include <volk.h>

#include <algorithm>
#include <cstring>

namespace reprise::test {
namespace {

constexpr VkDeviceSize kArenaBytes = VkDeviceSize{32} << 20;
constexpr VkDeviceSize kGuard = 256;
constexpr std::byte kGuardByte{0xA5};

std::string& validation_messages() {
  static std::string messages;
  return messages;
}

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                          VkDebugUtilsMessageTypeFlagsEXT,
                                          const VkDebugUtilsMessengerCallbackDataEXT* data, void*) {
  validation_messages() += std::string(data->pMessage) + "\n";
  return VK_FALSE;
}

/// A Vulkan structure, zero but for its type and chain.
template <typename T>
T make(VkStructureType type, void* next = nullptr) {
  T t{};
  t.sType = type;
  t.pNext = next;
  return t;
}

Status check(VkResult r, const char* call) {
  if (r == VK_SUCCESS) return {};
  return {Code::Device, std::string(call) + " returned " + std::to_string(r)};
}

uint64_t round_up(uint64_t v, uint64_t to) {
  return (v + to - 1) / to * to;
}

class Runner final : public VulkanRunner {
 public:
  Runner(VkPhysicalDevice physical, VulkanFacts facts)
      : physical_(physical), facts_(std::move(facts)) {}
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  const VulkanFacts& facts() const override { return facts_; }
  Status open();
  Status run(std::span<const uint32_t> spirv, Launch& launch, bool descriptors) override;

 private:
  Status open_device();
  Status open_memory();
  Status open_commands();
  Status make_pipeline(std::span<const uint32_t> spirv, VkPipelineLayout layout);
  Status make_descriptors(size_t buffers);
  void destroy_descriptors();
  void write_descriptors(const Launch& launch);
  Status submit(const Launch& launch, uint64_t block_address);
  Result<uint64_t> upload(const Launch& launch);
  Status download(Launch& launch) const;

  VkPhysicalDevice physical_;
  VulkanFacts facts_;
  VkDevice device_ = VK_NULL_HANDLE;
  VolkDeviceTable vk_{};
  uint32_t family_ = 0;
  VkQueue queue_ = VK_NULL_HANDLE;
  VkBuffer arena_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  std::byte* map_ = nullptr;
  uint64_t address_ = 0;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  VkFence fence_ = VK_NULL_HANDLE;
  std::vector<uint64_t> offsets_;  // of the buffers in the arena, for the launch in flight
  uint64_t used_ = 0;
  // Of the launch in flight, if it takes descriptors.
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkPipelineLayout set_pipeline_layout_ = VK_NULL_HANDLE;
  VkDescriptorPool descriptor_pool_ = VK_NULL_HANDLE;
  VkDescriptorSet set_ = VK_NULL_HANDLE;
  bool near_ = false;
};

Status Runner::open() {
  RP_TRY(open_device());
  RP_TRY(open_memory());
  return open_commands();
}

Status Runner::open_device() {
  uint32_t n = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(physical_, &n, nullptr);
  std::vector<VkQueueFamilyProperties> families(n);
  vkGetPhysicalDeviceQueueFamilyProperties(physical_, &n, families.data());
  while (family_ < n && (families[family_].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0) ++family_;
  if (family_ == n) return {Code::Device, facts_.name + " has no compute queue"};
  const float priority = 1.0F;
  auto queue = make<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
  queue.queueFamilyIndex = family_;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  auto v12 =
      make<VkPhysicalDeviceVulkan12Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
  v12.bufferDeviceAddress = VK_TRUE;
  v12.shaderFloat16 = facts_.float16;
  v12.shaderSubgroupExtendedTypes = facts_.subgroup_extended_types;
  v12.shaderInt8 = facts_.int8;
  v12.storageBuffer8BitAccess = facts_.storage8;
  auto v11 = make<VkPhysicalDeviceVulkan11Features>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &v12);
  v11.storageBuffer16BitAccess = facts_.storage16;
  auto features =
      make<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &v11);
  features.features.shaderInt64 = facts_.int64;
  features.features.shaderInt16 = facts_.int16;
  features.features.shaderFloat64 = facts_.float64;
  auto info = make<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &features);
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  RP_TRY(check(vkCreateDevice(physical_, &info, nullptr, &device_), "vkCreateDevice"));
  volkLoadDeviceTable(&vk_, device_);
  vk_.vkGetDeviceQueue(device_, family_, 0, &queue_);
  return {};
}

Status Runner::open_memory() {
  auto buffer = make<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
  buffer.size = kArenaBytes;
  buffer.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT |
                 VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  RP_TRY(check(vk_.vkCreateBuffer(device_, &buffer, nullptr, &arena_), "vkCreateBuffer"));
  VkMemoryRequirements needs{};
  vk_.vkGetBufferMemoryRequirements(device_, arena_, &needs);
  VkPhysicalDeviceMemoryProperties types{};
  vkGetPhysicalDeviceMemoryProperties(physical_, &types);
  const VkMemoryPropertyFlags want =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  uint32_t type = 0;
  while (type < types.memoryTypeCount &&
         !((needs.memoryTypeBits >> type & 1U) != 0 &&
           (types.memoryTypes[type].propertyFlags & want) == want)) {
    ++type;
  }
  if (type == types.memoryTypeCount) return {Code::Device, "no coherent memory"};
  auto flags = make<VkMemoryAllocateFlagsInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO);
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo alloc{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &flags, needs.size, type};
  RP_TRY(check(vk_.vkAllocateMemory(device_, &alloc, nullptr, &memory_), "vkAllocateMemory"));
  RP_TRY(check(vk_.vkBindBufferMemory(device_, arena_, memory_, 0), "vkBindBufferMemory"));
  void* map = nullptr;
  RP_TRY(check(vk_.vkMapMemory(device_, memory_, 0, VK_WHOLE_SIZE, 0, &map), "vkMapMemory"));
  map_ = static_cast<std::byte*>(map);
  VkBufferDeviceAddressInfo where{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, nullptr, arena_};
  address_ = vk_.vkGetBufferDeviceAddress(device_, &where);
  return {};
}

Status Runner::open_commands() {
  VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, 16};
  auto layout = make<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &range;
  RP_TRY(check(vk_.vkCreatePipelineLayout(device_, &layout, nullptr, &layout_),
               "vkCreatePipelineLayout"));
  auto pool = make<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pool.queueFamilyIndex = family_;
  RP_TRY(check(vk_.vkCreateCommandPool(device_, &pool, nullptr, &pool_), "vkCreateCommandPool"));
  VkCommandBufferAllocateInfo alloc{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, pool_,
                                    VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
  RP_TRY(
      check(vk_.vkAllocateCommandBuffers(device_, &alloc, &commands_), "vkAllocateCommandBuffers"));
  auto fence = make<VkFenceCreateInfo>(VK_STRUCTURE_TYPE_FENCE_CREATE_INFO);
  return check(vk_.vkCreateFence(device_, &fence, nullptr, &fence_), "vkCreateFence");
}

Status Runner::make_pipeline(std::span<const uint32_t> spirv, VkPipelineLayout layout) {
  auto code = make<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
  const std::vector<uint32_t> words = vulkan::with_supported_modes(spirv, facts_.float_modes);
  code.codeSize = words.size() * sizeof(uint32_t);
  code.pCode = words.data();
  VkShaderModule module = VK_NULL_HANDLE;
  RP_TRY(check(vk_.vkCreateShaderModule(device_, &code, nullptr, &module), "vkCreateShaderModule"));
  auto info = make<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
  info.stage =
      make<VkPipelineShaderStageCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO);
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.layout = layout;
  const VkResult r =
      vk_.vkCreateComputePipelines(device_, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline_);
  vk_.vkDestroyShaderModule(device_, module, nullptr);
  return check(r, "vkCreateComputePipelines");
}

Status Runner::make_descriptors(size_t buffers) {
  std::vector<VkDescriptorSetLayoutBinding> bindings;
  for (uint32_t n = 0; n < buffers + 2; ++n) {
    bindings.push_back(
        {n, n == 0 ? VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
         VK_SHADER_STAGE_COMPUTE_BIT, nullptr});
  }
  auto set =
      make<VkDescriptorSetLayoutCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO);
  set.bindingCount = static_cast<uint32_t>(bindings.size());
  set.pBindings = bindings.data();
  RP_TRY(check(vk_.vkCreateDescriptorSetLayout(device_, &set, nullptr, &set_layout_),
               "vkCreateDescriptorSetLayout"));
  auto layout = make<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
  layout.setLayoutCount = 1;
  layout.pSetLayouts = &set_layout_;
  RP_TRY(check(vk_.vkCreatePipelineLayout(device_, &layout, nullptr, &set_pipeline_layout_),
               "vkCreatePipelineLayout"));
  const VkDescriptorPoolSize sizes[] = {
      {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 1},
      {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, static_cast<uint32_t>(buffers) + 1}};
  auto pool = make<VkDescriptorPoolCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO);
  pool.maxSets = 1;
  pool.poolSizeCount = 2;
  pool.pPoolSizes = sizes;
  RP_TRY(check(vk_.vkCreateDescriptorPool(device_, &pool, nullptr, &descriptor_pool_),
               "vkCreateDescriptorPool"));
  auto allocate = make<VkDescriptorSetAllocateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO);
  allocate.descriptorPool = descriptor_pool_;
  allocate.descriptorSetCount = 1;
  allocate.pSetLayouts = &set_layout_;
  return check(vk_.vkAllocateDescriptorSets(device_, &allocate, &set_), "vkAllocateDescriptorSets");
}

void Runner::destroy_descriptors() {
  vk_.vkDestroyDescriptorPool(device_, descriptor_pool_, nullptr);
  vk_.vkDestroyPipelineLayout(device_, set_pipeline_layout_, nullptr);
  vk_.vkDestroyDescriptorSetLayout(device_, set_layout_, nullptr);
  descriptor_pool_ = VK_NULL_HANDLE;
  set_pipeline_layout_ = VK_NULL_HANDLE;
  set_layout_ = VK_NULL_HANDLE;
  set_ = VK_NULL_HANDLE;
}

/// Binds the memory, and writes to the block where the buffers are in their bindings.
void Runner::write_descriptors(const Launch& launch) {
  constexpr uint64_t kNear = 256;
  using kernel::BlockLayout;
  near_ = !near_;
  std::byte* block = map_ + kGuard;
  const uint32_t window = near_ ? ~static_cast<uint32_t>(kNear - 1) : 0;
  std::memcpy(block + BlockLayout::kWindow, &window, sizeof window);
  const auto bind = [&](uint32_t binding, uint64_t at, uint64_t bytes, uint32_t address_at) {
    const bool exact = binding < BlockLayout::buffer_binding(0);
    const uint64_t begin = exact ? at : near_ ? at / kNear * kNear : 0;
    const uint64_t end = exact || near_ ? at + std::max<uint64_t>(bytes, 4) : kArenaBytes;
    const VkDescriptorBufferInfo info{arena_, begin, end - begin};
    auto w = make<VkWriteDescriptorSet>(VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET);
    w.dstSet = set_;
    w.dstBinding = binding;
    w.descriptorCount = 1;
    w.descriptorType =
        binding == 0 ? VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    w.pBufferInfo = &info;
    vk_.vkUpdateDescriptorSets(device_, 1, &w, 0, nullptr);
    if (binding != 0) std::memcpy(block + address_at, &at, sizeof at);
  };
  const size_t n = launch.buffers.size();
  bind(BlockLayout::kBlockBinding, kGuard, BlockLayout::size(n, launch.scalars.size()), 0);
  bind(BlockLayout::kErrorBinding, offsets_.back(), 4, BlockLayout::kErrorAddress);
  for (size_t i = 0; i < n; ++i) {
    bind(BlockLayout::buffer_binding(i), offsets_[i], launch.buffers[i].size(),
         BlockLayout::buffer_offset(i));
  }
}

Result<uint64_t> Runner::upload(const Launch& launch) {
  const kernel::BlockLayout layout;
  const size_t n = launch.buffers.size();
  const uint32_t block_bytes = kernel::BlockLayout::size(n, launch.scalars.size());
  used_ = kGuard + round_up(block_bytes, kGuard) + kGuard;
  const uint64_t error_at = used_;
  used_ += kGuard;
  offsets_.clear();
  for (const auto& b : launch.buffers) {
    // Some alignments are no better than kernels may rely on.
    const uint64_t shift = 16 * (offsets_.size() % 4);
    offsets_.push_back(used_ + kGuard + shift);
    used_ += kGuard + round_up(b.size() + shift, kGuard) + kGuard;
  }
  if (used_ > kArenaBytes) return invalid_input("a test launch needs more than the arena holds");
  std::fill(map_, map_ + used_, kGuardByte);
  std::byte* block = map_ + kGuard;
  const uint64_t error_address = address_ + error_at;
  const uint32_t head[4] = {static_cast<uint32_t>(error_address),
                            static_cast<uint32_t>(error_address >> 32), launch.launch_id, 0};
  std::memcpy(block, head, sizeof head);
  std::memset(map_ + error_at, 0, 4);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t at = address_ + offsets_[i];
    std::memcpy(block + layout.buffer_offset(i), &at, 8);
    std::copy(launch.buffers[i].begin(), launch.buffers[i].end(), map_ + offsets_[i]);
  }
  if (!launch.scalars.empty()) {
    std::memcpy(block + layout.scalar_offset(n, 0), launch.scalars.data(),
                4 * launch.scalars.size());
  }
  offsets_.push_back(error_at);
  return address_ + kGuard;
}

Status Runner::download(Launch& launch) const {
  uint64_t guard_from = offsets_.back() + 4;
  std::memcpy(&launch.error_word, map_ + offsets_.back(), 4);
  for (size_t i = 0; i <= launch.buffers.size(); ++i) {
    const uint64_t to = i < launch.buffers.size() ? offsets_[i] : used_;
    if (!std::all_of(map_ + guard_from, map_ + to, [](std::byte b) { return b == kGuardByte; })) {
      return {Code::Device, "a write left its buffer, before buffer " + std::to_string(i)};
    }
    if (i == launch.buffers.size()) break;
    std::copy(map_ + to, map_ + to + launch.buffers[i].size(), launch.buffers[i].begin());
    guard_from = to + launch.buffers[i].size();
  }
  return {};
}

Status Runner::submit(const Launch& launch, uint64_t block_address) {
  auto begin = make<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  RP_TRY(check(vk_.vkBeginCommandBuffer(commands_, &begin), "vkBeginCommandBuffer"));
  vk_.vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_);
  const uint64_t push[] = {block_address, block_address};
  if (set_ == VK_NULL_HANDLE) {
    vk_.vkCmdPushConstants(commands_, layout_, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(push), push);
  } else {
    vk_.vkCmdBindDescriptorSets(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, set_pipeline_layout_, 0,
                                1, &set_, 0, nullptr);
  }
  vk_.vkCmdDispatch(commands_, launch.grid[0], launch.grid[1], launch.grid[2]);
  VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT,
                          VK_ACCESS_HOST_READ_BIT};
  vk_.vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                           VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, nullptr, 0, nullptr);
  RP_TRY(check(vk_.vkEndCommandBuffer(commands_), "vkEndCommandBuffer"));
  auto submit = make<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &commands_;
  RP_TRY(check(vk_.vkQueueSubmit(queue_, 1, &submit, fence_), "vkQueueSubmit"));
  const uint64_t minute = 60'000'000'000;
  RP_TRY(check(vk_.vkWaitForFences(device_, 1, &fence_, VK_TRUE, minute), "vkWaitForFences"));
  return check(vk_.vkResetFences(device_, 1, &fence_), "vkResetFences");
}

Status Runner::run(std::span<const uint32_t> spirv, Launch& launch, bool descriptors) {
  validation_messages().clear();
  if (descriptors) RP_TRY(make_descriptors(launch.buffers.size()));
  RP_TRY(make_pipeline(spirv, descriptors ? set_pipeline_layout_ : layout_));
  auto block = upload(launch);
  if (block.ok() && descriptors) write_descriptors(launch);
  Status status = block.ok() ? submit(launch, *block) : block.status();
  vk_.vkDestroyPipeline(device_, pipeline_, nullptr);
  if (descriptors) destroy_descriptors();
  if (status.ok()) status = download(launch);
  if (status.ok() && !validation_messages().empty()) {
    status = {Code::Device, "validation: " + validation_messages()};
  }
  return status.with_context(facts_.name);
}

/// Nothing when the device lacks buffer addresses or Vulkan 1.2.
bool read_facts(VkPhysicalDevice physical, VulkanFacts& f) {
  auto subgroup = make<VkPhysicalDeviceSubgroupProperties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);
  auto floats = make<VkPhysicalDeviceFloatControlsProperties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES, &subgroup);
  auto driver = make<VkPhysicalDeviceDriverProperties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES, &floats);
  auto p =
      make<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &driver);
  vkGetPhysicalDeviceProperties2(physical, &p);
  if (p.properties.apiVersion < VK_API_VERSION_1_2) return false;
  auto v12 =
      make<VkPhysicalDeviceVulkan12Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
  auto v11 = make<VkPhysicalDeviceVulkan11Features>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &v12);
  auto features =
      make<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &v11);
  vkGetPhysicalDeviceFeatures2(physical, &features);
  f.name = p.properties.deviceName;
  f.api_version = p.properties.apiVersion;
  f.int64 = features.features.shaderInt64 != VK_FALSE;
  f.int16 = features.features.shaderInt16 != VK_FALSE;
  f.float64 = features.features.shaderFloat64 != VK_FALSE;
  f.int8 = v12.shaderInt8 != VK_FALSE;
  f.float16 = v12.shaderFloat16 != VK_FALSE;
  f.subgroup_extended_types = v12.shaderSubgroupExtendedTypes != VK_FALSE;
  f.storage8 = v12.storageBuffer8BitAccess != VK_FALSE;
  f.storage16 = v11.storageBuffer16BitAccess != VK_FALSE;
  f.subgroup_size = subgroup.subgroupSize;
  const vulkan::FloatControls controls = vulkan::float_controls(floats, driver, f.float64);
  f.float_modes = controls.modes;
  f.exact_halves = f.float16 && controls.exact_halves;
  if ((subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0) {
    f.subgroup_arithmetic =
        (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT) != 0;
    f.subgroup_shuffle = (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) != 0;
  }
  f.workgroup_invocations = p.properties.limits.maxComputeWorkGroupInvocations;
  f.shared_bytes = p.properties.limits.maxComputeSharedMemorySize;
  return v12.bufferDeviceAddress != VK_FALSE;
}

Status open_instance(VkInstance& instance) {
  RP_TRY(check(volkInitialize(), "volkInitialize"));
  uint32_t n = 0;
  vkEnumerateInstanceLayerProperties(&n, nullptr);
  std::vector<VkLayerProperties> layers(n);
  vkEnumerateInstanceLayerProperties(&n, layers.data());
  const char* validation = "VK_LAYER_KHRONOS_validation";
  const bool has = std::any_of(layers.begin(), layers.end(), [&](const VkLayerProperties& l) {
    return std::strcmp(l.layerName, validation) == 0;
  });
  const char* debug_utils = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  auto app = make<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
  app.apiVersion = VK_API_VERSION_1_3;
  auto messenger = make<VkDebugUtilsMessengerCreateInfoEXT>(
      VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT);
  messenger.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  messenger.pfnUserCallback = on_message;
  auto info = make<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
  info.pApplicationInfo = &app;
  if (has) {
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = &validation;
    info.enabledExtensionCount = 1;
    info.ppEnabledExtensionNames = &debug_utils;
  }
  RP_TRY(check(vkCreateInstance(&info, nullptr, &instance), "vkCreateInstance"));
  volkLoadInstanceOnly(instance);
  if (!has) return {};
  VkDebugUtilsMessengerEXT handle = VK_NULL_HANDLE;
  return check(vkCreateDebugUtilsMessengerEXT(instance, &messenger, nullptr, &handle),
               "vkCreateDebugUtilsMessengerEXT");
}

Result<std::vector<VulkanRunner*>> open_all() {
  VkInstance instance = VK_NULL_HANDLE;
  RP_TRY(open_instance(instance));
  uint32_t n = 0;
  vkEnumeratePhysicalDevices(instance, &n, nullptr);
  std::vector<VkPhysicalDevice> devices(n);
  vkEnumeratePhysicalDevices(instance, &n, devices.data());
  static std::vector<std::unique_ptr<Runner>> runners;
  std::vector<VulkanRunner*> out;
  for (VkPhysicalDevice d : devices) {
    VulkanFacts facts;
    if (!read_facts(d, facts)) continue;
    runners.push_back(std::make_unique<Runner>(d, facts));
    RP_TRY(runners.back()->open().with_context(facts.name));
    out.push_back(runners.back().get());
  }
  return out;
}

}  // namespace

bool VulkanRunner::supports(const kernel::Requirements& r) const {
  if (r.matrix) return false;  // tests/matrix runs them, through the backend
  if (r.async_copies) return false;
  const VulkanFacts& f = facts();
  const bool types = (!r.int64 || f.int64) && (!r.float16 || f.float16) &&
                     (!r.float64 || f.float64) && (!r.storage8 || f.storage8) &&
                     (!r.storage16 || f.storage16) && (!r.exact_halves || f.exact_halves);
  const bool subgroups = (!r.subgroup_arithmetic || f.subgroup_arithmetic) &&
                         (!r.subgroup_shuffle || f.subgroup_shuffle) &&
                         (!r.subgroup_extended_types || f.subgroup_extended_types) &&
                         (r.subgroup_size == 0 || r.subgroup_size == f.subgroup_size);
  return types && subgroups && r.workgroup_invocations <= f.workgroup_invocations &&
         r.shared_bytes <= f.shared_bytes;
}

Result<std::vector<VulkanRunner*>> vulkan_runners() {
  static const Result<std::vector<VulkanRunner*>> runners = open_all();
  return runners;
}

}  // namespace reprise::test
