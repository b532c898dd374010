// Adapts the float execution modes of SPIR-V modules to the modes that a device supports.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace reprise::vulkan {

/// The float widths for which a device supports the execution mode SignedZeroInfNanPreserve.
struct PreservedFloats {
  bool f16 = false, f32 = false;
  bool supports(uint32_t width) const { return (width == 16 && f16) || (width == 32 && f32); }
};

/// Removes the modes SignedZeroInfNanPreserve that the device lacks from a module, and their
/// capability if no mode is left. Emitters write the mode into every module that computes with
/// floats, but Vulkan forbids modes that a device does not support. Returns a malformed module
/// unchanged.
std::vector<uint32_t> with_supported_modes(std::span<const uint32_t> module,
                                           const PreservedFloats& preserved);

}  // namespace reprise::vulkan
