#include "apps/common/devices.h"

#include "apps/common/status.h"
#include "runtime/platform/child/environment.h"
#include "runtime/session/session.h"

namespace reprise::app {

Refusal refusal_of(std::shared_ptr<const package::Package> package) {
  return [package = std::move(package)](const DeviceInfo& device) {
    return why_unfit(*package, device.facts);
  };
}

Result<OpenedDevice> open_named_device(const std::string& id, const BackendOptions& options,
                                       const Refusal& refusal) {
  RP_ASSIGN(OpenedDevice device, open_device(id, options, refusal));
  if (!device.note.empty()) note(device.note);
  return device;
}

BackendOptions default_backend_options() {
  BackendOptions options;
  const std::string folder = platform::user_cache_folder();
  if (!folder.empty()) options.cache_dir = folder + "/reprise";
  return options;
}

Result<HiddenFeatures> parse_hidden(const std::vector<std::string>& names) {
  HiddenFeatures hidden;
  for (const std::string& name : names) {
    if (name == "buffer-addresses") {
      hidden.buffer_address = true;
    } else if (name == "update-after-bind") {
      hidden.update_after_bind = true;
    } else if (name == "vulkan-1.2") {
      hidden.newer_than_vulkan_1_1 = true;
    } else if (name == "transfer-queues") {
      hidden.transfer_queues = true;
    } else {
      return Status(Code::Usage,
                    "--without takes buffer-addresses, update-after-bind, transfer-queues and "
                    "vulkan-1.2, not '" +
                        name + "'");
    }
  }
  return hidden;
}

std::string cuda_cache_dir() {
  const std::string folder = default_backend_options().cache_dir;
  return folder.empty() ? folder : folder + "/cuda";
}

}  // namespace reprise::app
