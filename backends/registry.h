// The backends of this build, as an explicit table, and devices by the names that people use.
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
  std::shared_ptr<Device> device;  // null: the host reference path
  DeviceInfo info;
  std::string note;  // why "auto" took this device; empty otherwise
};

/// Why a device will not do for what it is wanted for; empty if it will.
using Refusal = std::function<std::string(const DeviceInfo& device)>;

/// `id`: "auto", "host", "vulkan", "vulkan:1", "cuda:0". "auto" takes the best usable device that
/// is not refused (CUDA, a GPU before a CPU-type device, then the host) and says which in `note`. A
/// backend without a number is its best usable device. A borrowed Vulkan device in `options` is
/// opened by "vulkan", a borrowed CUDA context by "cuda", either by "auto". Unknown names are
/// Code::Usage, unusable devices Code::Device with the reason.
Result<OpenedDevice> open_device(std::string_view id, const BackendOptions& options = {},
                                 const Refusal& refusal = {});

}  // namespace reprise
