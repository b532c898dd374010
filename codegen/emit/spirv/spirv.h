// Prints kernel IR as SPIR-V words. It only translates: schedules are decided before, and the only
// choices are those of SpirvOptions.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/kernel/ir/kernel.h"

namespace reprise::emit {

struct SpirvOptions {
  uint32_t version = 0x00010300;  // SPIR-V 1.3 to 1.6, for Vulkan 1.1 and later
  /// Loads and stores four or two 32-bit elements as two u64 or one, so that CPU-type devices with
  /// int64 gather and scatter fewer times.
  bool loads_64_bits = false;
  /// Asks the driver not to unroll loops that would become long: a CPU-type device compiles their
  /// copies for seconds, and runs them no faster.
  bool keeps_loops = false;
  /// For devices without buffer addresses: buffers are descriptors (see below).
  bool descriptors = false;
};

/// Emits a module with the entry point "main". Its push constants hold the physical address of the
/// parameter block (kernel::BlockLayout) twice, at offsets 0 and 8, each declared as a pointer and
/// never as an integer. Pointers in the block point to vectors when read through the first, and to
/// elements when read through the second (workarounds::kFirstComponent). The float types that the
/// kernel computes with have the execution mode SignedZeroInfNanPreserve, without which a driver
/// may assume that no value is NaN or infinite. A kernel that rounds to F16
/// (kernel::rounds_to_half) has the modes RoundingModeRTE and DenormPreserve: unlike the decoration
/// FPRoundingMode, they cover halves that are stored as parts of words. It has them for all widths,
/// as drivers may demand; what a driver does not need is removed for it (backends/vulkan).
/// Unsupported for a feature that the kernel's requirements do not allow in SPIR-V.
///
/// With `descriptors` there are no push constants and no pointers. Descriptor set 0 has the block
/// as a uniform block (plan::BlockLayout::kBlockBinding) and a storage buffer for the error word
/// and for each buffer that the kernel accesses. Of an address in the block, the kernel reads the
/// part below BlockLayout::kWindow: the offset of the buffer from the start of its binding.
Result<std::vector<uint32_t>> spirv(const kernel::Kernel& k, const SpirvOptions& options);

}  // namespace reprise::emit
