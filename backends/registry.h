// The table of the backends in this build, and devices by name.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/backend.h"

namespace reprise {

/// Every backend of this build, in the order in which "auto" prefers them.
std::span<Backend* const> backends();

/// All devices of all backends, then the host.
std::vector<DeviceInfo> list_devices();

struct OpenedDevice {
  std::shared_ptr<Device> device;  // null: the host
  DeviceInfo info;
  std::string note;  // why "auto" chose this device; empty for other ids
};

/// Returns why "auto" must not choose a device; empty if it may.
using Refusal = std::function<std::string(const DeviceInfo& device)>;

/// Opens a device. `id` is "auto", "host", "vulkan", "vulkan:1", "cuda:0" and so on.
///  - "auto" opens the best usable device that is not refused, or else the host, and says which in
///    `note`. It prefers CUDA, and GPUs to CPU-type devices.
///  - The name of a backend without a number opens its best usable device.
///  - If `options` lend a device or context, the name of its backend or "auto" opens that.
/// An unknown name is Code::Usage; an unusable device is Code::Device with the reason.
Result<OpenedDevice> open_device(std::string_view id, const BackendOptions& options = {},
                                 const Refusal& refusal = {});

}  // namespace reprise
