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

}  // namespace reprise::vulkan
