#include <algorithm>
#include <initializer_list>

#include "backends/vulkan/device.h"
#include "backends/vulkan/vulkan.h"
#include "runtime/platform/process.h"

namespace reprise::vulkan {
namespace {

std::vector<DeviceInfo> no_vulkan(std::string reason) {
  DeviceInfo info;
  info.id = "vulkan";
  info.name = "no Vulkan device";
  info.kind = "other";
  info.reason = std::move(reason);
  info.facts.api = Api::Vulkan;
  return {info};
}

class VulkanBackend final : public Backend {
 public:
  std::string_view name() const override { return "vulkan"; }

  std::vector<DeviceInfo> devices(const HiddenFeatures& hidden) override {
    auto instance = Instance::create(false, {}, hidden);
    if (!instance.ok()) return no_vulkan(instance.status().message());
    auto handles = (*instance)->physical_devices();
    if (!handles.ok()) return no_vulkan(handles.status().message());
    std::vector<DeviceInfo> all;
    for (size_t i = 0; i < handles->size(); ++i)
      all.push_back(PhysicalDevice::query(**instance, (*handles)[i], i, hidden).info);
    if (all.empty()) {
      const std::string said = loader_complaints();
      return no_vulkan(
          "the Vulkan drivers have no device" + (said.empty() ? said : ": " + said) +
          "; install a driver for the GPU (Debian: mesa-vulkan-drivers, or the vendor's), "
          "or unset VK_DRIVER_FILES and VK_ICD_FILENAMES if they name others");
    }
    return all;
  }

  Result<std::unique_ptr<Device>> open(size_t index, const BackendOptions& options) override {
    return vulkan::open(index, options);
  }
};

}  // namespace

Result<std::unique_ptr<Device>> open(size_t index, const BackendOptions& options,
                                     const TableHook& hook, const DriverHook& driver_hook,
                                     const InstanceHook& instance_hook) {
  PhysicalDevice physical;
  std::shared_ptr<Instance> instance;
  if (options.vulkan.device) {
    RP_ASSIGN(instance, Instance::borrow(options.vulkan));
    physical = PhysicalDevice::query(*instance,
                                     static_cast<VkPhysicalDevice>(options.vulkan.physical_device),
                                     0, options.hidden);
    physical.info.id = "vulkan";
    // An instance of Vulkan 1.0 has no function that tells the limits.
    if (physical.info.facts.max_buffer_bytes == 0)
      return Status(Code::Usage,
                    "reprise_vulkan_device: the instance does not tell the limits of the device; "
                    "create it for Vulkan 1.1 or a later version");
  } else {
    RP_ASSIGN(instance, Instance::create(options.validation, options.log, options.hidden));
    if (instance_hook) instance->replace_functions(instance_hook);
    RP_ASSIGN(auto handles, instance->physical_devices());
    if (index >= handles.size()) {
      RP_TRY(platform::check_open_files());
      return Status(Code::Usage, "there is no device vulkan:" + std::to_string(index) + "; found " +
                                     std::to_string(handles.size()) + " Vulkan device" +
                                     (handles.size() == 1 ? "" : "s"));
    }
    physical = PhysicalDevice::query(*instance, handles[index], index, options.hidden);
  }
  RP_ASSIGN(
      std::unique_ptr<Device> device,
      VulkanDevice::create(std::move(instance), std::move(physical), options, hook, driver_hook));
  return device;
}

Status set_wanted_features(BorrowedVulkan& v) {
  RP_ASSIGN(const auto instance, Instance::borrow(v));
  const PhysicalDevice physical =
      PhysicalDevice::query(*instance, static_cast<VkPhysicalDevice>(v.physical_device), 0, {});
  if (!physical.info.usable)
    return {Code::Device, physical.info.name + ": " + physical.info.reason};
  FeatureChain has;
  physical.query_features(*instance, has);
  const auto all = [](std::initializer_list<VkBool32> features) {
    return std::ranges::none_of(features, [](VkBool32 f) { return f == VK_FALSE; });
  };
  v.no_buffer_address = !all({has.address.bufferDeviceAddress});
  v.update_after_bind =
      v.no_buffer_address && all({has.indexing.descriptorBindingStorageBufferUpdateAfterBind});
  v.int64 = all({has.core.features.shaderInt64});
  v.float16 = all({has.float16.shaderFloat16});
  v.float64 = all({has.core.features.shaderFloat64});
  v.storage8 = all({has.storage8.storageBuffer8BitAccess, has.float16.shaderInt8});
  v.storage16 = all({has.storage16.storageBuffer16BitAccess, has.core.features.shaderInt16});
  return {};
}

Backend& backend() {
  static VulkanBackend b;
  return b;
}

}  // namespace reprise::vulkan
