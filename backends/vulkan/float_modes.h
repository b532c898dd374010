// Adapts the float execution modes of SPIR-V modules to the modes that a device supports.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

/// Removes the modes of FloatModes that the device lacks from a module, and their capabilities if
/// no mode is left. Emitters write the modes into every module that may need them, but Vulkan
/// forbids modes that a device does not support. Returns a malformed module unchanged.
std::vector<uint32_t> with_supported_modes(std::span<const uint32_t> module,
                                           const FloatModes& supported);

}  // namespace reprise::vulkan
