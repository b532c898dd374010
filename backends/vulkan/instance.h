// The Vulkan loader, and a VkInstance with a function table of its own.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/vulkan/api.h"
#include "backends/vulkan/cooperative_matrix.h"
#include "runtime/device/backend.h"

namespace reprise::vulkan {

/// "VK_ERROR_DEVICE_LOST", or the number of an unknown code.
std::string name_of(VkResult r);

/// The instance functions that this backend uses. They are loaded for each instance, so that
/// several instances, including one of the application, can exist at the same time.
struct InstanceTable {
  PFN_vkDestroyInstance destroy_instance = nullptr;
  PFN_vkEnumeratePhysicalDevices enumerate_physical_devices = nullptr;
  PFN_vkGetPhysicalDeviceProperties properties = nullptr;
  PFN_vkGetPhysicalDeviceProperties2 properties2 = nullptr;
  PFN_vkGetPhysicalDeviceFeatures2 features2 = nullptr;
  PFN_vkGetPhysicalDeviceMemoryProperties memory_properties = nullptr;
  PFN_vkGetPhysicalDeviceQueueFamilyProperties queue_families = nullptr;
  PFN_vkGetPhysicalDeviceExternalBufferProperties external_buffer_properties = nullptr;
  PFN_vkEnumerateDeviceExtensionProperties device_extensions = nullptr;
  PFN_vkCreateDevice create_device = nullptr;
  PFN_vkGetDeviceProcAddr get_device_proc_addr = nullptr;
  // Null without their extensions.
  PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR matrix_properties = nullptr;
  PFN_vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV flexible_properties =
      nullptr;
  PFN_vkCreateDebugUtilsMessengerEXT create_messenger = nullptr;
  PFN_vkDestroyDebugUtilsMessengerEXT destroy_messenger = nullptr;
};

/// What the Vulkan loader complains about when it looks for drivers, such as files that are
/// missing; empty for nothing.
std::string loader_complaints();

class Instance {
 public:
  /// Creates an instance. `validation` needs the Khronos layer to be installed; its messages go to
  /// `log`.
  static Result<std::shared_ptr<Instance>> create(bool validation, Log log,
                                                  const HiddenFeatures& hidden = {});
  /// Uses the application's instance, which is never destroyed here.
  static Result<std::shared_ptr<Instance>> borrow(const BorrowedVulkan& borrowed);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  VkInstance handle() const { return handle_; }
  const InstanceTable& fn() const { return fn_; }
  /// For tests.
  void replace_functions(const std::function<void(InstanceTable&)>& by) { by(fn_); }
  Result<std::vector<VkPhysicalDevice>> physical_devices() const;
  /// Never destroys the instance: a device of it continues to exist, or drivers stay loaded.
  void keep() { owned_ = false; }
  /// Loads the functions of a device, through volk. Thread-safe.
  void load_device_table(VkDevice device, VolkDeviceTable& table) const;

 private:
  Instance() = default;
  Status load_functions(PFN_vkGetInstanceProcAddr get);
  Status create_messenger();

  VkInstance handle_ = VK_NULL_HANDLE;
  std::atomic<bool> owned_ = false;
  InstanceTable fn_;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  Log log_;
};

}  // namespace reprise::vulkan
