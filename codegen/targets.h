// The variants that a package can hold, and the texts that name them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/lower/target.h"
#include "runtime/base/status.h"
#include "runtime/cuda_arch.h"

namespace reprise {

/// Variants of "vulkan", in order of preference.
std::vector<lower::Target> vulkan_targets();

/// The variant for one CUDA architecture. Those from sm_80 on differ in the architecture alone.
lower::Target cuda_target(const CudaArch& arch);

/// What the texts name, in order of preference: "vulkan", its variants, "host" (none), and
/// architectures of CUDA: "cuda:sm_90", or "cuda:compute_80" for PTX. Cubins are followed by PTX
/// for the lowest architecture, unless PTX is named or not wanted; "cuda" alone is the device's
/// architecture and needs one. Other texts are Code::Usage, architectures below CudaArch::kLeast
/// Code::Unsupported. `added`: further variants that may be named.
Result<std::vector<lower::Target>> parse_targets(const std::vector<std::string>& names,
                                                 const std::optional<DeviceFacts>& device = {},
                                                 bool ptx = true,
                                                 const std::vector<lower::Target>& added = {});

}  // namespace reprise
