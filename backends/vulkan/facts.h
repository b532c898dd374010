// The facts of a physical device, and the features to enable when it is opened.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/vulkan/float_modes.h"
#include "backends/vulkan/instance.h"
#include "runtime/device/backend.h"
#include "runtime/facts/device_facts.h"

namespace reprise::vulkan {

/// A chain of feature structures. A query fills it; it is then reduced to the features that are
/// used and passed to vkCreateDevice.
struct FeatureChain {
  VkPhysicalDeviceFeatures2 core{};
  VkPhysicalDevice16BitStorageFeatures storage16{};
  VkPhysicalDevice8BitStorageFeatures storage8{};
  VkPhysicalDeviceShaderFloat16Int8Features float16{};
  VkPhysicalDeviceBufferDeviceAddressFeatures address{};
  VkPhysicalDeviceVulkanMemoryModelFeatures memory_model{};
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_size{};
  VkPhysicalDeviceScalarBlockLayoutFeatures scalar_layout{};
  VkPhysicalDeviceShaderSubgroupExtendedTypesFeatures subgroup_types{};
  VkPhysicalDeviceDescriptorIndexingFeatures indexing{};
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline{};
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix{};
  VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16{};
  VkPhysicalDeviceCooperativeMatrix2FeaturesNV matrix2{};
};

/// The families of queues that a device is opened with.
struct QueueFamilies {
  static constexpr uint32_t kNone = VK_QUEUE_FAMILY_IGNORED;
  uint32_t compute = kNone;
  /// That of the queues for transfers: one that only transfers, beside all work of other families;
  /// or else that of `compute`, if it has more queues than one; or else any other.
  uint32_t transfer = kNone;
  uint32_t transfer_queues = 0;  // that are used of it: one for uploads, a second for downloads
  bool only_transfers = false;   // the family `transfer` has engines of its own

  static QueueFamilies choose(std::span<const VkQueueFamilyProperties> families);

 private:
  void use(uint32_t family, uint32_t queues);
};

struct PhysicalDevice {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  VkPhysicalDeviceProperties properties{};
  DeviceInfo info;
  std::vector<const char*> extensions;  // to enable; string literals
  QueueFamilies queues;
  std::vector<VkQueueFlags> families;  // what the queues of each family can do
  uint32_t timestamp_bits = 0;
  FloatModes float_modes;       // that modules are to declare
  bool full_subgroups = false;  // a pipeline may require full subgroups
  // Whether descriptors of storage buffers may change after they were recorded. Used only if there
  // are no buffer addresses.
  bool update_after_bind = false;

  /// Queries a device; `index` is its number in the id ("vulkan:0"). Never fails: info.reason says
  /// why a device cannot be used.
  static PhysicalDevice query(const Instance& instance, VkPhysicalDevice handle, size_t index,
                              const HiddenFeatures& hidden = {});
  /// Uses descriptors instead of buffer addresses from now on.
  void use_descriptors();
  /// Links the structures that this device supports into `chain`, and fills it from the device.
  void query_features(const Instance& instance, FeatureChain& chain) const;
  /// Clears the features of a filled chain that this backend does not use.
  void keep_used(FeatureChain& chain) const;

 private:
  bool has(const char* extension) const;
  bool offers(uint32_t core_version, const char* extension) const;
  void fill_identity(const Instance& instance);
  void fill_features(const Instance& instance, const HiddenFeatures& hidden);
  void fill_limits(const Instance& instance);
  void fill_float_modes(const Instance& instance);
  void fill_matrices(const Instance& instance, const FeatureChain& chain);
  void fill_flexible_matrices(const Instance& instance, const FeatureChain& chain);
  void choose_extensions();
  void choose_queues(const Instance& instance);
  std::vector<std::string> available_;  // extensions of the device
};

}  // namespace reprise::vulkan
