// The table of the backends in this build, and devices by name.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device/backend.h"

namespace reprise {

/// Every backend of this build, in the order in which "auto" prefers them.
std::span<Backend* const> backends();

/// All devices of all backends, then the host.
std::vector<DeviceInfo> list_devices(const HiddenFeatures& hidden = {});

/// The host as a device. This loads no driver.
DeviceInfo host_info();

struct OpenedDevice {
  std::shared_ptr<Device> device;  // null: the host
  DeviceInfo info;
  std::string note;         // which device was opened, for "auto" or if any was passed over
  std::string passed_over;  // better or unusable devices that a choice passed over, with reasons
};

/// Returns why "auto" must not choose a device; empty if it may.
using Refusal = std::function<std::string(const DeviceInfo& device)>;

/// Opens a device. `id` is "auto", "host", "vulkan", "vulkan:1", "cuda:0" and so on.
///  - "auto" opens the best usable device that is not refused, or else the host, and says which in
///    `note`. It prefers CUDA, and GPUs to CPU-type devices; of a GPU that several backends know,
///    the one whose kernels were right when they were last checked; and last come devices whose
///    kernels were wrong (runtime/check/proof.h). If a device cannot be opened, it tries
///    the next one; if none can, options that are wrong or not supported are an error.
///  - The name of a backend without a number does the same with the devices of this backend.
///  - If `options` lend a device or context, the name of its backend or "auto" opens that.
/// An unknown name is Code::Usage; an unusable device is Code::Device with the reason.
Result<OpenedDevice> open_device(std::string_view id, const BackendOptions& options = {},
                                 const Refusal& refusal = {});

/// Opens the best device of these backends that is not refused and can be opened. If there is none,
/// the error has the reasons, and the code of the first device that failed.
Result<OpenedDevice> open_best(std::span<Backend* const> from, const BackendOptions& options = {},
                               const Refusal& refusal = {});

}  // namespace reprise
