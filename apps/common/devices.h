// How our programs open devices.
#pragma once

#include <string>
#include <vector>

#include "backends/registry.h"
#include "runtime/package/package.h"

namespace reprise::app {

/// Opens a device by name; "auto" explains its choice on standard error. The device of a backend
/// that this build lacks is a Code::Device error that lists the backends that exist.
Result<OpenedDevice> open_named_device(const std::string& id, const BackendOptions& options,
                                       const Refusal& refusal = {});
/// Makes "auto" refuse devices that no variant of the package fits.
Refusal refusal_of(std::shared_ptr<const package::Package> package);

/// The backend options of our programs, with the user's cache folder (XDG_CACHE_HOME, or else
/// ~/.cache).
BackendOptions default_backend_options();
/// Reads the names of hidden features: "buffer-addresses", "update-after-bind", "vulkan-1.2",
/// "transfer-queues".
Result<HiddenFeatures> parse_hidden(const std::vector<std::string>& names);
/// The folder for compiled CUDA kernels, below the cache folder. Empty if there is none.
std::string cuda_cache_dir();

}  // namespace reprise::app
