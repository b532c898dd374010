#include "backends/vulkan/facts.h"

#include "backends/vulkan/external_memory.h"
#include "backends/vulkan/float_modes.h"
#include "backends/vulkan/workarounds.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace reprise::vulkan {
namespace {

constexpr uint32_t kMaxOffsetAlignment = 256;  // of descriptors, on any device

DeviceKind kind_of(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return DeviceKind::Cpu;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return DeviceKind::IntegratedGpu;
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return DeviceKind::DiscreteGpu;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return DeviceKind::VirtualGpu;
    default:
      return DeviceKind::Other;
  }
}

const char* kind_name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::Host:
      return "host";
    case DeviceKind::Cpu:
      return "cpu";
    case DeviceKind::IntegratedGpu:
      return "integrated-gpu";
    case DeviceKind::DiscreteGpu:
      return "discrete-gpu";
    case DeviceKind::VirtualGpu:
      return "virtual-gpu";
    case DeviceKind::Other:
      return "other";
  }
  return "other";
}

std::string version_str(uint32_t v) {
  return std::to_string(VK_API_VERSION_MAJOR(v)) + "." + std::to_string(VK_API_VERSION_MINOR(v)) +
         "." + std::to_string(VK_API_VERSION_PATCH(v));
}

template <typename T>
void link(void**& tail, T& s, VkStructureType type) {
  s.sType = type;
  s.pNext = nullptr;
  *tail = &s;
  tail = &s.pNext;
}

/// What a driver lists, if the features that it needs are there.
std::optional<MmaConfig> usable_matrix(const std::optional<MmaConfig>& matrix,
                                       const FeatureChain& chain) {
  if (!matrix) return matrix;
  const bool bfloats = matrix->types.a == MmaType::BF16 || matrix->types.b == MmaType::BF16;
  const bool has_bfloats = chain.bfloat16.shaderBFloat16CooperativeMatrix != VK_FALSE;
  const bool has_workgroups = chain.matrix2.cooperativeMatrixWorkgroupScope != VK_FALSE;
  const bool usable =
      (!bfloats || has_bfloats) && (matrix->scope != MmaScope::Workgroup || has_workgroups);
  return usable ? matrix : std::nullopt;
}

}  // namespace

bool PhysicalDevice::has(const char* extension) const {
  return std::find(available_.begin(), available_.end(), extension) != available_.end();
}

bool PhysicalDevice::offers(uint32_t core_version, const char* extension) const {
  return properties.apiVersion >= core_version || has(extension);
}

void PhysicalDevice::query_features(const Instance& instance, FeatureChain& chain) const {
  chain = {};
  void* first = nullptr;
  void** tail = &first;
  link(tail, chain.core, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
  link(tail, chain.storage16, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES);
  if (offers(VK_API_VERSION_1_2, VK_KHR_8BIT_STORAGE_EXTENSION_NAME))
    link(tail, chain.storage8, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES);
  if (offers(VK_API_VERSION_1_2, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME))
    link(tail, chain.float16, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES);
  if (offers(VK_API_VERSION_1_2, VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME))
    link(tail, chain.address, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES);
  if (offers(VK_API_VERSION_1_2, VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME))
    link(tail, chain.memory_model, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES);
  if (offers(VK_API_VERSION_1_2, VK_EXT_SCALAR_BLOCK_LAYOUT_EXTENSION_NAME)) {
    link(tail, chain.scalar_layout, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SCALAR_BLOCK_LAYOUT_FEATURES);
  }
  if (offers(VK_API_VERSION_1_2, VK_KHR_SHADER_SUBGROUP_EXTENDED_TYPES_EXTENSION_NAME)) {
    link(tail, chain.subgroup_types,
         VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES);
  }
  if (offers(VK_API_VERSION_1_3, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME)) {
    link(tail, chain.subgroup_size,
         VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES);
  }
  if (offers(VK_API_VERSION_1_2, VK_EXT_DESCRIPTOR_INDEXING_EXTENSION_NAME)) {
    link(tail, chain.indexing, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DESCRIPTOR_INDEXING_FEATURES);
  }
  if (properties.apiVersion >= VK_API_VERSION_1_2)
    link(tail, chain.timeline, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES);
  if (has(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME)) {
    link(tail, chain.matrix, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR);
  }
  if (has(VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME))
    link(tail, chain.bfloat16, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR);
  if (has(VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME))
    link(tail, chain.matrix2, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV);
  instance.fn().features2(handle, &chain.core);
}

void PhysicalDevice::keep_used(FeatureChain& chain) const {
  const VkPhysicalDeviceFeatures all = chain.core.features;
  chain.core.features = {};
  chain.core.features.shaderInt64 = all.shaderInt64;
  chain.core.features.shaderInt16 = all.shaderInt16;
  chain.core.features.shaderFloat64 = all.shaderFloat64;
  chain.storage16.storagePushConstant16 = VK_FALSE;
  chain.storage16.storageInputOutput16 = VK_FALSE;
  chain.storage8.storagePushConstant8 = VK_FALSE;
  chain.address.bufferDeviceAddress = info.facts.buffer_address ? VK_TRUE : VK_FALSE;
  chain.address.bufferDeviceAddressCaptureReplay = VK_FALSE;
  chain.address.bufferDeviceAddressMultiDevice = VK_FALSE;
  chain.memory_model.vulkanMemoryModelAvailabilityVisibilityChains = VK_FALSE;
  chain.timeline.timelineSemaphore = queues.transfer_queues > 0 ? VK_TRUE : VK_FALSE;
  chain.matrix.cooperativeMatrixRobustBufferAccess = VK_FALSE;
  chain.bfloat16.shaderBFloat16DotProduct = VK_FALSE;
  chain.matrix2.cooperativeMatrixReductions = VK_FALSE;
  chain.matrix2.cooperativeMatrixConversions = VK_FALSE;
  chain.matrix2.cooperativeMatrixPerElementOperations = VK_FALSE;
  chain.matrix2.cooperativeMatrixTensorAddressing = VK_FALSE;
  chain.matrix2.cooperativeMatrixBlockLoads = VK_FALSE;
  VkPhysicalDeviceDescriptorIndexingFeatures none{};
  none.sType = chain.indexing.sType;
  none.pNext = chain.indexing.pNext;
  none.descriptorBindingStorageBufferUpdateAfterBind = update_after_bind ? VK_TRUE : VK_FALSE;
  chain.indexing = none;
}

PhysicalDevice PhysicalDevice::query(const Instance& instance, VkPhysicalDevice handle,
                                     size_t index, const HiddenFeatures& hidden) {
  PhysicalDevice d;
  d.handle = handle;
  instance.fn().properties(handle, &d.properties);
  if (hidden.newer_than_vulkan_1_1 && d.properties.apiVersion >= VK_API_VERSION_1_2)
    d.properties.apiVersion = VK_API_VERSION_1_1;
  uint32_t n = 0;
  std::vector<VkExtensionProperties> extensions;
  if (instance.fn().device_extensions(handle, nullptr, &n, nullptr) == VK_SUCCESS) {
    extensions.resize(n);
    if (instance.fn().device_extensions(handle, nullptr, &n, extensions.data()) < 0) n = 0;
    extensions.resize(n);
  }
  for (const auto& e : extensions) d.available_.emplace_back(e.extensionName);

  d.info.id = "vulkan:" + std::to_string(index);
  d.info.name = d.properties.deviceName;
  d.info.facts.api = Api::Vulkan;
  d.info.facts.kind = kind_of(d.properties.deviceType);
  d.info.kind = kind_name(d.info.facts.kind);
  d.info.api = "Vulkan " + version_str(d.properties.apiVersion);
  d.info.driver_version = d.properties.driverVersion;
  if (d.properties.apiVersion < VK_API_VERSION_1_1) {
    d.info.driver = "version " + std::to_string(d.properties.driverVersion);
    d.info.reason = "the driver offers " + d.info.api + ", but 1.1 or later is needed; update it";
    return d;
  }
  d.fill_identity(instance);
  d.fill_limits(instance);
  d.choose_queues(instance);
  d.fill_features(instance, hidden);
  d.choose_extensions();
  d.info.usable = d.info.reason.empty();
  return d;
}

void PhysicalDevice::fill_identity(const Instance& instance) {
  VkPhysicalDeviceProperties2 p2{};
  p2.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  void** tail = &p2.pNext;
  VkPhysicalDeviceIDProperties id{};
  link(tail, id, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);
  VkPhysicalDeviceDriverProperties driver{};
  if (offers(VK_API_VERSION_1_2, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME))
    link(tail, driver, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
  instance.fn().properties2(handle, &p2);
  std::memcpy(info.uuid, id.deviceUUID, sizeof(info.uuid));
  info.has_luid = id.deviceLUIDValid != VK_FALSE;
  if (info.has_luid) {
    std::memcpy(info.luid, id.deviceLUID, sizeof(info.luid));
    info.luid_node_mask = id.deviceNodeMask;
  }
  info.facts.driver = driver_traits(driver.driverID, driver.driverInfo);
  info.driver = driver.driverName[0] == 0
                    ? "version " + std::to_string(properties.driverVersion)
                    : std::string(driver.driverName) + " " + driver.driverInfo;
}

void PhysicalDevice::fill_limits(const Instance& instance) {
  VkPhysicalDeviceProperties2 p2{};
  p2.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  void** tail = &p2.pNext;
  VkPhysicalDeviceSubgroupProperties subgroup{};
  link(tail, subgroup, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);
  VkPhysicalDeviceMaintenance3Properties maintenance3{};
  link(tail, maintenance3, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
  VkPhysicalDeviceMaintenance4Properties maintenance4{};
  if (offers(VK_API_VERSION_1_3, VK_KHR_MAINTENANCE_4_EXTENSION_NAME))
    link(tail, maintenance4, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES);
  VkPhysicalDeviceSubgroupSizeControlProperties control{};
  if (offers(VK_API_VERSION_1_3, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME))
    link(tail, control, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES);
  instance.fn().properties2(handle, &p2);

  DeviceFacts& f = info.facts;
  const VkPhysicalDeviceLimits& l = properties.limits;
  const bool in_compute = (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
  f.subgroup_size = std::max(subgroup.subgroupSize, 1U);
  f.subgroup_arithmetic =
      in_compute && (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT) != 0;
  f.subgroup_shuffle =
      in_compute && (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) != 0;
  f.max_workgroup_invocations = l.maxComputeWorkGroupInvocations;
  f.max_shared_bytes = l.maxComputeSharedMemorySize;
  std::copy(std::begin(l.maxComputeWorkGroupCount), std::end(l.maxComputeWorkGroupCount),
            std::begin(f.max_grid));
  f.max_push_constant_bytes = l.maxPushConstantsSize;
  f.max_storage_buffers =
      std::min(l.maxPerStageDescriptorStorageBuffers, l.maxDescriptorSetStorageBuffers);
  // maxStorageBufferRange does not apply to memory that kernels access through pointers.
  f.max_buffer_bytes = maintenance3.maxMemoryAllocationSize;
  if (maintenance4.maxBufferSize > 0)
    f.max_buffer_bytes = std::min(f.max_buffer_bytes, maintenance4.maxBufferSize);
  if ((control.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0) {
    f.least_subgroup_size = control.minSubgroupSize;
    f.largest_subgroup_size = control.maxSubgroupSize;
  }
}

void PhysicalDevice::fill_float_modes(const Instance& instance) {
  VkPhysicalDeviceProperties2 p2{};
  p2.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  void** tail = &p2.pNext;
  VkPhysicalDeviceFloatControlsProperties floats{};
  if (offers(VK_API_VERSION_1_2, VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME))
    link(tail, floats, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES);
  VkPhysicalDeviceDriverProperties driver{};
  if (offers(VK_API_VERSION_1_2, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME))
    link(tail, driver, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
  instance.fn().properties2(handle, &p2);
  const FloatControls controls = float_controls(floats, driver, info.facts.float64);
  float_modes = controls.modes;
  info.facts.exact_halves = info.facts.float16 && controls.exact_halves;
}

// A descriptor covers a part of the memory only, and begins at a multiple of up to 256 bytes.
void PhysicalDevice::use_descriptors() {
  DeviceFacts& f = info.facts;
  f.buffer_address = false;
  f.max_buffer_bytes = std::min<uint64_t>(
      f.max_buffer_bytes, properties.limits.maxStorageBufferRange - kMaxOffsetAlignment);
  f.matrices.clear();
  f.flexible_matrices.clear();
}

void PhysicalDevice::fill_features(const Instance& instance, const HiddenFeatures& hidden) {
  FeatureChain chain;
  query_features(instance, chain);
  DeviceFacts& f = info.facts;
  f.int64 = chain.core.features.shaderInt64 != VK_FALSE;
  f.float16 = chain.float16.shaderFloat16 != VK_FALSE;
  f.float64 = chain.core.features.shaderFloat64 != VK_FALSE;
  f.storage8 = chain.storage8.storageBuffer8BitAccess != VK_FALSE;
  f.storage16 = chain.storage16.storageBuffer16BitAccess != VK_FALSE;
  fill_float_modes(instance);
  f.subgroup_extended_types = chain.subgroup_types.shaderSubgroupExtendedTypes != VK_FALSE;
  f.buffer_address = chain.address.bufferDeviceAddress != VK_FALSE && !hidden.buffer_address;
  update_after_bind = chain.indexing.descriptorBindingStorageBufferUpdateAfterBind != VK_FALSE &&
                      !hidden.update_after_bind;
  // Modules with cooperative matrices use the Vulkan memory model.
  if (chain.matrix.cooperativeMatrix != VK_FALSE &&
      chain.memory_model.vulkanMemoryModel != VK_FALSE)
    fill_matrices(instance, chain);
  if (chain.timeline.timelineSemaphore == VK_FALSE || hidden.transfer_queues)
    queues.transfer_queues = 0;
  if (!f.buffer_address) use_descriptors();
  if (chain.subgroup_size.subgroupSizeControl == VK_FALSE)
    f.least_subgroup_size = f.largest_subgroup_size = 0;
  full_subgroups =
      f.largest_subgroup_size != 0 && chain.subgroup_size.computeFullSubgroups != VK_FALSE;
}

void PhysicalDevice::fill_matrices(const Instance& instance, const FeatureChain& chain) {
  const auto query = instance.fn().matrix_properties;
  uint32_t n = 0;
  if (!query || query(handle, &n, nullptr) != VK_SUCCESS) return;
  VkCooperativeMatrixPropertiesKHR blank{};
  blank.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
  std::vector<VkCooperativeMatrixPropertiesKHR> all(n, blank);
  if (query(handle, &n, all.data()) < 0) return;
  all.resize(std::min<size_t>(n, all.size()));
  for (const auto& p : all)
    if (const auto matrix = usable_matrix(matrix_of(p), chain))
      info.facts.matrices.push_back(*matrix);
  fill_flexible_matrices(instance, chain);
}

void PhysicalDevice::fill_flexible_matrices(const Instance& instance, const FeatureChain& chain) {
  const auto query = instance.fn().flexible_properties;
  uint32_t n = 0;
  if (chain.matrix2.cooperativeMatrixFlexibleDimensions == VK_FALSE || !query ||
      query(handle, &n, nullptr) != VK_SUCCESS)
    return;
  VkCooperativeMatrixFlexibleDimensionsPropertiesNV blank{};
  blank.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_FLEXIBLE_DIMENSIONS_PROPERTIES_NV;
  std::vector<VkCooperativeMatrixFlexibleDimensionsPropertiesNV> all(n, blank);
  if (query(handle, &n, all.data()) < 0) return;
  all.resize(std::min<size_t>(n, all.size()));
  for (const auto& p : all)
    if (const auto matrix = usable_matrix(matrix_of(p), chain))
      info.facts.flexible_matrices.push_back(*matrix);
  VkPhysicalDeviceProperties2 p2{};
  p2.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  void** tail = &p2.pNext;
  VkPhysicalDeviceCooperativeMatrix2PropertiesNV reserved{};
  link(tail, reserved, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_PROPERTIES_NV);
  instance.fn().properties2(handle, &p2);
  info.facts.reserved_shared_bytes = reserved.cooperativeMatrixWorkgroupScopeReservedSharedMemory;
}

void PhysicalDevice::choose_extensions() {
  const auto add = [&](uint32_t core_version, const char* name) {
    if (properties.apiVersion < core_version && has(name)) extensions.push_back(name);
  };
  add(VK_API_VERSION_1_2, VK_KHR_8BIT_STORAGE_EXTENSION_NAME);
  add(VK_API_VERSION_1_2, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME);
  if (info.facts.buffer_address) {
    add(VK_API_VERSION_1_2, VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME);
  } else {
    add(VK_API_VERSION_1_2, VK_EXT_DESCRIPTOR_INDEXING_EXTENSION_NAME);
  }
  add(VK_API_VERSION_1_2, VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME);
  add(VK_API_VERSION_1_2, VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME);
  add(VK_API_VERSION_1_2, VK_EXT_SCALAR_BLOCK_LAYOUT_EXTENSION_NAME);
  add(VK_API_VERSION_1_2, VK_KHR_SHADER_SUBGROUP_EXTENDED_TYPES_EXTENSION_NAME);
  add(VK_API_VERSION_1_3, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
  if (has(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME))
    extensions.push_back(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
  if (has(VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME))
    extensions.push_back(VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME);
  if (has(VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME))
    extensions.push_back(VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME);
  // For imported memory.
  for (const char* name : kExternalMemoryExtensions)
    if (has(name)) extensions.push_back(name);
  // If a device lists this extension, it must be enabled.
  if (has("VK_KHR_portability_subset")) extensions.push_back("VK_KHR_portability_subset");
}

void QueueFamilies::use(uint32_t family, uint32_t queues) {
  if (queues == 0) return;
  transfer = family;
  transfer_queues = std::min(queues, 2U);
}

QueueFamilies QueueFamilies::choose(std::span<const VkQueueFamilyProperties> families) {
  // Engines for video copy too, but serve others.
  constexpr VkQueueFlags kOfCopyEngines =
      VK_QUEUE_TRANSFER_BIT | VK_QUEUE_SPARSE_BINDING_BIT | VK_QUEUE_PROTECTED_BIT;
  QueueFamilies chosen;
  for (uint32_t i = 0; i < families.size(); ++i) {
    const VkQueueFlags flags = families[i].queueFlags;
    if (chosen.compute == kNone && (flags & VK_QUEUE_COMPUTE_BIT) != 0) chosen.compute = i;
    const bool copies = (flags & VK_QUEUE_TRANSFER_BIT) != 0 && (flags & ~kOfCopyEngines) == 0;
    if (chosen.transfer != kNone || !copies || families[i].queueCount == 0) continue;
    chosen.use(i, families[i].queueCount);
    chosen.only_transfers = true;
  }
  if (chosen.transfer == kNone && chosen.compute != kNone)
    chosen.use(chosen.compute, std::max(families[chosen.compute].queueCount, 1U) - 1);
  // Queues with kernels or graphics can transfer, whether they say so or not.
  constexpr VkQueueFlags kCopies =
      VK_QUEUE_TRANSFER_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT;
  for (uint32_t i = 0; i < families.size() && chosen.transfer == kNone; ++i) {
    if (i != chosen.compute && (families[i].queueFlags & kCopies) != 0)
      chosen.use(i, families[i].queueCount);
  }
  return chosen;
}

void PhysicalDevice::choose_queues(const Instance& instance) {
  uint32_t n = 0;
  instance.fn().queue_families(handle, &n, nullptr);
  std::vector<VkQueueFamilyProperties> all(n);
  instance.fn().queue_families(handle, &n, all.data());
  queues = QueueFamilies::choose(all);
  for (const VkQueueFamilyProperties& f : all) families.push_back(f.queueFlags);
  if (queues.compute == QueueFamilies::kNone) {
    info.reason = "the device has no compute queue";
  } else {
    timestamp_bits = all[queues.compute].timestampValidBits;
  }
}

}  // namespace reprise::vulkan
