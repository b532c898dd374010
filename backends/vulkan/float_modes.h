// Which float execution modes a device takes, by what its driver says of them, and SPIR-V modules
// with only these modes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

// Declared here, so that tests which load Vulkan under its own names can include this header.
struct VkPhysicalDeviceDriverProperties;
struct VkPhysicalDeviceFloatControlsProperties;

namespace reprise::vulkan {

/// The float widths for which a device supports an execution mode.
struct FloatWidths {
  bool f16 = false, f32 = false, f64 = false;
  bool supports(uint32_t width) const {
    return (width == 16 && f16) || (width == 32 && f32) || (width == 64 && f64);
  }
};

struct FloatModes {
  FloatWidths special_values = {};  // SignedZeroInfNanPreserve
  FloatWidths subnormals = {};      // DenormPreserve
  FloatWidths nearest = {};         // RoundingModeRTE
};

struct FloatControls {
  FloatModes modes = {};  // that modules are to declare
  /// With these modes, conversions to fp16 round to nearest even and keep subnormal numbers.
  bool exact_halves = false;
};

/// Drivers may demand that several widths have one mode. A mode is then declared for all of them or
/// for none. `float64`: modules may compute with doubles.
FloatControls float_controls(const VkPhysicalDeviceFloatControlsProperties& offered,
                             const VkPhysicalDeviceDriverProperties& driver, bool float64);

/// Removes the modes of FloatModes that the device lacks from a module, and their capabilities if
/// no mode is left. Emitters write the modes into every module that may need them, but Vulkan
/// forbids modes that a device does not support. Returns a malformed module unchanged.
std::vector<uint32_t> with_supported_modes(std::span<const uint32_t> module,
                                           const FloatModes& supported);

}  // namespace reprise::vulkan
