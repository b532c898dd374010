// Drivers that do something badly, apart from what they can do at all. Each row names the driver,
// the versions and what was measured.
#pragma once

#include <string_view>

#include "backends/vulkan/api.h"
#include "runtime/device_facts.h"

namespace reprise::vulkan {

/// Sets the facts that a driver's bugs decide. `info`:
/// VkPhysicalDeviceDriverProperties::driverInfo.
void apply_workarounds(VkDriverId driver, std::string_view info, DeviceFacts& facts);
/// Whether the driver miscompiles kernels that have the execution mode SignedZeroInfNanPreserve,
/// although it says that it supports the mode.
bool miscompiles_preserved_floats(VkDriverId driver);

}  // namespace reprise::vulkan
