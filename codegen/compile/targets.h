// The variants that a package can hold, and the names of targets.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/target/target.h"
#include "runtime/base/status.h"
#include "runtime/facts/cuda_arch.h"

namespace reprise {

/// The variants of "vulkan", in order of preference.
std::vector<lower::Target> vulkan_targets();

/// The variant for those of its devices that have fp64 arithmetic.
lower::Target with_float64(lower::Target t);

/// The variant for one CUDA architecture. From sm_80 on, they differ only in the architecture.
lower::Target cuda_target(const CudaArch& arch);

/// From now on the target's devices multiply floats of 32 bits without matrix units.
void remove_split_products(lower::Target& t);

/// Parses target names: "vulkan", its variants (with_float64() of them included), "host" (no
/// variant), "cuda:sm_90" for cubins of an architecture and "cuda:compute_80" for PTX. "cuda" alone
/// names the architecture of `device`, which it requires; "vulkan" has what a device without buffer
/// addresses needs only if that is `device`, and those with matrices do without exact conversions
/// to fp16 if `device` lacks them. PTX for the lowest architecture follows the cubins if `ptx`,
/// unless PTX is named or a device is given. `added` are further variants that may be named.
/// Returns the variants in order of preference. Unknown names are Code::Usage, architectures below
/// CudaArch::kLeast are Code::Unsupported.
Result<std::vector<lower::Target>> parse_targets(const std::vector<std::string>& names,
                                                 const std::optional<DeviceFacts>& device = {},
                                                 bool ptx = true,
                                                 const std::vector<lower::Target>& added = {});

}  // namespace reprise
