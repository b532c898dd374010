// Devices as programs open them.
#pragma once

#include <string>

#include "backends/registry.h"

namespace reprise::app {

/// Opens a device by name; "auto" explains its choice on standard error. Devices of backends that
/// are not in this build are Code::Device errors that say what there is.
Result<OpenedDevice> open_named_device(const std::string& id, const BackendOptions& options);

/// Backend options of our programs: the user's cache folder (XDG_CACHE_HOME, else ~/.cache).
BackendOptions default_backend_options();
/// Where kernels compiled for CUDA are kept: a folder in that one, or empty.
std::string cuda_cache_dir();

}  // namespace reprise::app
