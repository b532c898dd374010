// Which float execution modes a device takes, by what its driver says of them.
#pragma once

#include "backends/vulkan/float_modes.h"

// Declared here, so that tests which load Vulkan under its own names can include this header.
struct VkPhysicalDeviceDriverProperties;
struct VkPhysicalDeviceFloatControlsProperties;

namespace reprise::vulkan {

struct FloatControls {
  FloatModes modes = {};  // that modules are to declare
  /// With these modes, conversions to fp16 round to nearest even and keep subnormal numbers.
  bool exact_halves = false;
};

/// Drivers may demand that several widths have one mode. A mode is then declared for all of them or
/// for none. `float64`: modules may compute with doubles.
FloatControls float_controls(const VkPhysicalDeviceFloatControlsProperties& offered,
                             const VkPhysicalDeviceDriverProperties& driver, bool float64);

}  // namespace reprise::vulkan
