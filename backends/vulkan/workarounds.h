// Which drivers need the workarounds that a backend decides about
// (runtime/base/driver_workarounds.h).
#pragma once

#include <string_view>

#include "backends/vulkan/api.h"
#include "runtime/base/driver_workarounds.h"

namespace reprise::vulkan {

/// `info`: VkPhysicalDeviceDriverProperties::driverInfo.
DriverTraits driver_traits(VkDriverId driver, std::string_view info);
/// workarounds::kPreservedFloats, although the driver says that it supports the mode.
bool miscompiles_preserved_floats(VkDriverId driver);

}  // namespace reprise::vulkan
