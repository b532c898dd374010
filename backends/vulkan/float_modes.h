// The float execution modes of SPIR-V modules, fitted to what a device supports.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace reprise::vulkan {

/// Widths of floats for which a device supports the execution mode SignedZeroInfNanPreserve.
struct PreservedFloats {
  bool f16 = false, f32 = false;
  bool supports(uint32_t width) const { return (width == 16 && f16) || (width == 32 && f32); }
};

/// The module without the modes SignedZeroInfNanPreserve that the device lacks, and without their
/// capability if none is left. Emitters write the mode into every module that computes with floats;
/// Vulkan forbids it where it is not supported. Damaged modules are returned as they are.
std::vector<uint32_t> with_supported_modes(std::span<const uint32_t> module,
                                           const PreservedFloats& preserved);

}  // namespace reprise::vulkan
