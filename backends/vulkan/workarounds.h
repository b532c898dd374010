// Decides which drivers need the workarounds that depend on driver and version
// (runtime/base/driver_workarounds.h).
#pragma once

#include <string_view>

#include "backends/vulkan/api.h"
#include "runtime/base/driver_workarounds.h"

namespace reprise::vulkan {

/// `info` is VkPhysicalDeviceDriverProperties::driverInfo.
DriverTraits driver_traits(VkDriverId driver, std::string_view info);
/// workarounds::kPreservedFloats: the driver reports support for the mode but miscompiles it.
bool miscompiles_preserved_floats(VkDriverId driver);
/// Whether conversions to fp16 keep subnormal numbers although the driver does not offer to
/// (DenormPreserve). llvmpipe converts by instructions of the CPU that keep them:
/// tests/emit/halves_test.cpp proves it. NVIDIA's instructions to fp16 cannot flush (PTX ISA, cvt).
bool keeps_subnormal_halves(VkDriverId driver);

}  // namespace reprise::vulkan
