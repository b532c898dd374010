// Kernel IR -> SPIR-V words (decision 1). A dumb printer: no scheduling, no choices but those in
// Options.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/kernel/kernel.h"

namespace reprise::emit {

struct SpirvOptions {
  uint32_t version = 0x00010300;  // SPIR-V 1.3 .. 1.6; Vulkan 1.1+ environments
  /// Load and store 32-bit x4 as u64 x2: CPU-type devices with int64 gather and scatter fewer
  /// times.
  bool wide_loads = false;
};

/// Entry point "main". Push constants: the physical address of the parameter block
/// (kernel::BlockLayout) at offset 0 and once more at offset 8, each declared as a pointer, never
/// as an integer. Through the second one the block's pointers lead to elements, where they lead to
/// vectors through the first (workarounds::kFirstComponent). The floats that the kernel computes
/// with have the execution mode SignedZeroInfNanPreserve: without it a driver may assume that no
/// value is NaN or infinite. Fails (Unsupported) on a feature that the kernel's requirements do not
/// allow in SPIR-V.
Result<std::vector<uint32_t>> spirv(const kernel::Kernel& k, const SpirvOptions& options);

}  // namespace reprise::emit
