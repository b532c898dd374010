// What a physical device offers, and the features to switch on when it is opened.
#pragma once

#include <string>
#include <vector>

#include "backends/vulkan/float_modes.h"
#include "backends/vulkan/instance.h"
#include "runtime/device_facts.h"

namespace reprise::vulkan {

/// Feature structures as one chain: filled by a query, then masked to what is used and passed to
/// vkCreateDevice.
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
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix{};
};

struct PhysicalDevice {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  VkPhysicalDeviceProperties properties{};
  DeviceInfo info;
  std::vector<const char*> extensions;  // to enable; string literals
  uint32_t queue_family = 0;
  uint32_t timestamp_bits = 0;
  // Subgroup sizes that a pipeline may require; 0..0 when the device has no such control.
  uint32_t min_subgroup_size = 0, max_subgroup_size = 0;
  PreservedFloats preserved;    // what kernels may ask for
  bool full_subgroups = false;  // a pipeline may require that no subgroup is filled in part

  /// Facts of one device; `index` numbers it ("vulkan:0"). Never fails: a device that cannot be
  /// used says why in info.reason.
  static PhysicalDevice query(const Instance& instance, VkPhysicalDevice handle, size_t index);
  /// Links `chain` with the structures that this device knows, and fills it from the device.
  void query_features(const Instance& instance, FeatureChain& chain) const;
  /// Clears every feature in a filled chain that this backend does not use.
  static void keep_used(FeatureChain& chain);

 private:
  bool has(const char* extension) const;
  bool offers(uint32_t core_version, const char* extension) const;
  void fill_identity(const Instance& instance);
  void fill_features(const Instance& instance);
  void fill_limits(const Instance& instance);
  void fill_matrices(const Instance& instance);
  void choose_extensions();
  void choose_queue(const Instance& instance);
  std::vector<std::string> available_;  // extensions
  VkDriverId driver_ = VK_DRIVER_ID_MAX_ENUM;
};

}  // namespace reprise::vulkan
