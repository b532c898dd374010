// A VkInstance with its own function table, and the Vulkan loader.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/vulkan/api.h"
#include "backends/vulkan/cooperative_matrix.h"
#include "runtime/backend.h"

namespace reprise::vulkan {

using Log = std::function<void(const std::string&)>;

/// "VK_ERROR_DEVICE_LOST", or the number of a code that is not known here.
std::string name_of(VkResult r);

/// The instance functions in use. Loaded per instance, so that several instances, one of them
/// perhaps the application's, live side by side.
struct InstanceTable {
  PFN_vkDestroyInstance destroy_instance = nullptr;
  PFN_vkEnumeratePhysicalDevices enumerate_physical_devices = nullptr;
  PFN_vkGetPhysicalDeviceProperties properties = nullptr;
  PFN_vkGetPhysicalDeviceProperties2 properties2 = nullptr;
  PFN_vkGetPhysicalDeviceFeatures2 features2 = nullptr;
  PFN_vkGetPhysicalDeviceMemoryProperties memory_properties = nullptr;
  PFN_vkGetPhysicalDeviceQueueFamilyProperties queue_families = nullptr;
  PFN_vkEnumerateDeviceExtensionProperties device_extensions = nullptr;
  PFN_vkCreateDevice create_device = nullptr;
  PFN_vkGetDeviceProcAddr get_device_proc_addr = nullptr;
  PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR matrix_properties = nullptr;  // or null
  PFN_vkCreateDebugUtilsMessengerEXT create_messenger = nullptr;    // null without the extension
  PFN_vkDestroyDebugUtilsMessengerEXT destroy_messenger = nullptr;  // likewise
};

class Instance {
 public:
  /// A new instance. With `validation`, the Khronos layer must be installed; its messages go to
  /// `log`.
  static Result<std::shared_ptr<Instance>> create(bool validation, Log log);
  /// The application's; never destroyed here.
  static Result<std::shared_ptr<Instance>> borrow(const BorrowedVulkan& borrowed);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  VkInstance handle() const { return handle_; }
  const InstanceTable& fn() const { return fn_; }
  Result<std::vector<VkPhysicalDevice>> physical_devices() const;
  /// It is not destroyed: a device of it lives on.
  void keep() { owned_ = false; }
  /// Every function of a device, through volk. Thread-safe.
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
