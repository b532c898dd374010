#include "backends/vulkan/instance.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "runtime/platform/library.h"
#include "runtime/platform/process.h"

namespace reprise::vulkan {
namespace {

/// The names under which the loader is looked for. MoltenVK also works without one.
#if defined(_WIN32)
const std::array<std::string, 1> kLoaders{"vulkan-1.dll"};
#elif defined(__APPLE__)
const std::array<std::string, 3> kLoaders{"libvulkan.1.dylib", "libvulkan.dylib",
                                          "libMoltenVK.dylib"};
#else
const std::array<std::string, 2> kLoaders{"libvulkan.so.1", "libvulkan.so"};
#endif

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";

// Guards volk's global variables: the entry points of the loader, and the vkGetDeviceProcAddr that
// volkLoadDeviceTable reads.
std::mutex& volk_mutex() {
  static std::mutex m;
  return m;
}

Status load_loader() {
  const std::lock_guard lock(volk_mutex());
  if (volkGetInstanceVersion() != 0) return {};
  const auto loader = platform::Library::open_first(kLoaders);
  const auto get = loader.function<PFN_vkGetInstanceProcAddr>("vkGetInstanceProcAddr");
  if (get) volkInitializeCustom(get);
  if (get && volkGetInstanceVersion() != 0) return {};
  RP_TRY(platform::check_open_files());
  const std::string why = loader ? "it is none" : loader.error();
  return {Code::Device, "no Vulkan loader (" + kLoaders.front() +
                            ") can be used on this machine (" + why +
                            "); install it with a driver for the GPU"
                            " (Debian: libvulkan1 and mesa-vulkan-drivers)"};
}

std::vector<VkExtensionProperties> instance_extensions(const char* layer) {
  uint32_t n = 0;
  std::vector<VkExtensionProperties> all;
  if (vkEnumerateInstanceExtensionProperties(layer, &n, nullptr) != VK_SUCCESS) return all;
  all.resize(n);
  if (vkEnumerateInstanceExtensionProperties(layer, &n, all.data()) < 0) n = 0;
  all.resize(n);
  return all;
}

bool has_extension(const std::vector<VkExtensionProperties>& all, const char* name) {
  return std::any_of(all.begin(), all.end(), [&](const VkExtensionProperties& e) {
    return std::strcmp(e.extensionName, name) == 0;
  });
}

bool has_layer(const char* name) {
  uint32_t n = 0;
  if (vkEnumerateInstanceLayerProperties(&n, nullptr) != VK_SUCCESS) return false;
  std::vector<VkLayerProperties> layers(n);
  if (vkEnumerateInstanceLayerProperties(&n, layers.data()) < 0) return false;
  return std::any_of(layers.begin(), layers.end(), [&](const VkLayerProperties& l) {
    return std::strcmp(l.layerName, name) == 0;
  });
}

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                          VkDebugUtilsMessageTypeFlagsEXT,
                                          const VkDebugUtilsMessengerCallbackDataEXT* data,
                                          void* user) {
  const auto& log = *static_cast<const Log*>(user);
  if (log && data && data->pMessage) {
    const bool wrong = severity >= VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    log(wrong ? Severity::Error : Severity::Warning,
        std::string("Vulkan validation: ") + data->pMessage);
  }
  return VK_FALSE;
}

}  // namespace

std::string name_of(VkResult r) {
  switch (r) {
#define NAME(x) \
  case x:       \
    return #x
    NAME(VK_SUCCESS);
    NAME(VK_NOT_READY);
    NAME(VK_TIMEOUT);
    NAME(VK_INCOMPLETE);
    NAME(VK_ERROR_OUT_OF_HOST_MEMORY);
    NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY);
    NAME(VK_ERROR_INITIALIZATION_FAILED);
    NAME(VK_ERROR_DEVICE_LOST);
    NAME(VK_ERROR_MEMORY_MAP_FAILED);
    NAME(VK_ERROR_LAYER_NOT_PRESENT);
    NAME(VK_ERROR_EXTENSION_NOT_PRESENT);
    NAME(VK_ERROR_FEATURE_NOT_PRESENT);
    NAME(VK_ERROR_INCOMPATIBLE_DRIVER);
    NAME(VK_ERROR_TOO_MANY_OBJECTS);
    NAME(VK_ERROR_INVALID_EXTERNAL_HANDLE);
    NAME(VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS);
#undef NAME
    default:
      return "VkResult " + std::to_string(static_cast<int>(r));
  }
}

Status Instance::load_functions(PFN_vkGetInstanceProcAddr get) {
  bool complete = true;
  const auto load = [&](auto& pointer, const char* name, bool required = true) {
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(get(handle_, name));
    complete = complete && (pointer || !required);
  };
  load(fn_.destroy_instance, "vkDestroyInstance");
  load(fn_.enumerate_physical_devices, "vkEnumeratePhysicalDevices");
  load(fn_.properties, "vkGetPhysicalDeviceProperties");
  load(fn_.properties2, "vkGetPhysicalDeviceProperties2");
  load(fn_.features2, "vkGetPhysicalDeviceFeatures2");
  load(fn_.memory_properties, "vkGetPhysicalDeviceMemoryProperties");
  load(fn_.queue_families, "vkGetPhysicalDeviceQueueFamilyProperties");
  load(fn_.external_buffer_properties, "vkGetPhysicalDeviceExternalBufferProperties");
  load(fn_.device_extensions, "vkEnumerateDeviceExtensionProperties");
  load(fn_.create_device, "vkCreateDevice");
  load(fn_.get_device_proc_addr, "vkGetDeviceProcAddr");
  load(fn_.matrix_properties, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR", false);
  load(fn_.flexible_properties,
       "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV", false);
  load(fn_.create_messenger, "vkCreateDebugUtilsMessengerEXT", false);
  load(fn_.destroy_messenger, "vkDestroyDebugUtilsMessengerEXT", false);
  if (complete) return {};
  return {Code::Device, "the Vulkan instance is older than 1.1; update the Vulkan loader"};
}

Status Instance::create_messenger() {
  if (!fn_.create_messenger || !fn_.destroy_messenger) return {};
  VkDebugUtilsMessengerCreateInfoEXT info{};
  info.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
  info.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                         VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  info.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                     VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
  info.pfnUserCallback = on_message;
  info.pUserData = &log_;
  const VkResult r = fn_.create_messenger(handle_, &info, nullptr, &messenger_);
  if (r == VK_SUCCESS) return {};
  return {Code::Device, "vkCreateDebugUtilsMessengerEXT failed: " + name_of(r)};
}

namespace {

/// The loader loads the drivers with a process's first instance and unloads them with its last. Not
/// every driver survives that often: NVIDIA's 580 cannot be loaded again after some tens of times.
/// So the first instance lives as long as the process.
void keep_drivers_loaded(Instance& first) {
  static std::atomic<bool> kept = false;
  if (!kept.exchange(true)) first.keep();
}

VKAPI_ATTR VkBool32 VKAPI_CALL keep_message(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                            VkDebugUtilsMessageTypeFlagsEXT,
                                            const VkDebugUtilsMessengerCallbackDataEXT* data,
                                            void* user) {
  auto& kept = *static_cast<std::vector<std::string>*>(user);
  if (data && data->pMessage && std::ranges::find(kept, data->pMessage) == kept.end())
    kept.emplace_back(data->pMessage);
  return VK_FALSE;
}

}  // namespace

// The loader reports files and libraries that it cannot open to whoever makes an instance with a
// messenger.
std::string loader_complaints() {
  std::vector<std::string> messages;
  VkDebugUtilsMessengerCreateInfoEXT messenger{};
  messenger.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
  messenger.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                              VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT;
  messenger.pfnUserCallback = keep_message;
  messenger.pUserData = &messages;
  const char* const extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pNext = &messenger;
  info.enabledExtensionCount = 1;
  info.ppEnabledExtensionNames = &extension;
  VkInstance instance = VK_NULL_HANDLE;
  if (vkCreateInstance(&info, nullptr, &instance) == VK_SUCCESS) {
    const auto destroy = reinterpret_cast<PFN_vkDestroyInstance>(
        vkGetInstanceProcAddr(instance, "vkDestroyInstance"));
    if (destroy) destroy(instance, nullptr);
  }
  std::string said;
  for (const std::string& m : messages)
    if (m.find("Found no drivers") == std::string::npos) said += (said.empty() ? "" : "; ") + m;
  return said;
}

namespace {

std::string why_no_driver() {
  const std::string said = loader_complaints();
  if (said.empty()) {
    return "no Vulkan driver is installed (Debian: mesa-vulkan-drivers, or the GPU vendor's), or "
           "the variables VK_DRIVER_FILES and VK_ICD_FILENAMES, which replace those that are "
           "installed, name none";
  }
  return "the Vulkan loader can use no driver: " + said +
         "; mend what it names, or unset VK_DRIVER_FILES and VK_ICD_FILENAMES, which replace the "
         "drivers that are installed";
}

}  // namespace

Result<std::shared_ptr<Instance>> Instance::create(bool validation, Log log,
                                                   const HiddenFeatures& hidden) {
  RP_TRY(load_loader());
  if (volkGetInstanceVersion() < VK_API_VERSION_1_1) {
    return Status(Code::Device, "the Vulkan loader is older than 1.1; update it");
  }
  if (validation && !has_layer(kValidationLayer)) {
    return unsupported(std::string("the validation layer ") + kValidationLayer +
                       " is not installed (Debian: vulkan-validationlayers); install it or switch "
                       "validation off");
  }
  VkApplicationInfo app{};
  app.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  app.pEngineName = "reprise";
  const uint32_t newest = hidden.newer_than_vulkan_1_1 ? VK_API_VERSION_1_1 : VK_API_VERSION_1_3;
  app.apiVersion = std::min(volkGetInstanceVersion(), newest);
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &app;
  std::vector<const char*> extensions;
  if (validation) {
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = &kValidationLayer;
    extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  }
  if (has_extension(instance_extensions(nullptr), VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
    extensions.push_back(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
    info.flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
  }
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();

  auto self = std::shared_ptr<Instance>(new Instance);
  self->log_ = std::move(log);
  const VkResult r = vkCreateInstance(&info, nullptr, &self->handle_);
  if (r != VK_SUCCESS) RP_TRY(platform::check_open_files());
  if (r == VK_ERROR_INCOMPATIBLE_DRIVER) return Status(Code::Device, why_no_driver());
  if (r != VK_SUCCESS) {
    const std::string said = loader_complaints();
    return Status(Code::Device, "vkCreateInstance failed: " + name_of(r) +
                                    (said.empty() ? said : "; the Vulkan loader says: " + said));
  }
  self->owned_ = true;
  RP_TRY(self->load_functions(vkGetInstanceProcAddr));
  keep_drivers_loaded(*self);
  if (validation) RP_TRY(self->create_messenger());
  return self;
}

Result<std::shared_ptr<Instance>> Instance::borrow(const BorrowedVulkan& borrowed) {
  if (!borrowed.instance || !borrowed.physical_device || (borrowed.device && !borrowed.queue)) {
    return Status(Code::Usage,
                  "a borrowed Vulkan device needs its instance, physical device and queue as well");
  }
  auto get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(borrowed.get_instance_proc_addr);
  if (!get) {
    RP_TRY(load_loader());
    get = vkGetInstanceProcAddr;
  }
  auto self = std::shared_ptr<Instance>(new Instance);
  self->handle_ = static_cast<VkInstance>(borrowed.instance);
  RP_TRY(self->load_functions(get));
  return self;
}

Instance::~Instance() {
  if (messenger_) fn_.destroy_messenger(handle_, messenger_, nullptr);
  if (owned_ && fn_.destroy_instance) fn_.destroy_instance(handle_, nullptr);
}

Result<std::vector<VkPhysicalDevice>> Instance::physical_devices() const {
  uint32_t n = 0;
  VkResult r = fn_.enumerate_physical_devices(handle_, &n, nullptr);
  std::vector<VkPhysicalDevice> all(n);
  if (r == VK_SUCCESS && n > 0) r = fn_.enumerate_physical_devices(handle_, &n, all.data());
  if (r < 0) return Status(Code::Device, "vkEnumeratePhysicalDevices failed: " + name_of(r));
  all.resize(n);
  if (all.empty()) RP_TRY(platform::check_open_files());
  return all;
}

void Instance::load_device_table(VkDevice device, VolkDeviceTable& table) const {
  const std::lock_guard lock(volk_mutex());
  const PFN_vkGetDeviceProcAddr saved = vkGetDeviceProcAddr;
  vkGetDeviceProcAddr = fn_.get_device_proc_addr;
  volkLoadDeviceTable(&table, device);
  vkGetDeviceProcAddr = saved;
}

}  // namespace reprise::vulkan
