// explain --device-model: the times of a plan's kernels on a device, as codegen/device_model has
// them.
#pragma once

#include <string>

#include "apps/reprise/command.h"
#include "codegen/device_model/devices.h"
#include "runtime/package/package.h"

namespace reprise::app {

/// The names of all devices, for help.
std::string device_model_names();

/// Prints a row for each launch, and returns the same as JSON. `compiled` is a variant for CUDA.
/// NVRTC (`nvrtc`: its path, or empty) makes PTX of kernels that were compiled for a device, which
/// takes their text.
Result<Json> model_times(const Output& out, const package::CompiledPlan& compiled,
                         const device_model::Device& device, const std::string& nvrtc);

}  // namespace reprise::app
