// PTX of kernels, made by NVRTC of the text that codegen/emit/cuda prints. No GPU is needed.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "codegen/kernel/ir/kernel.h"
#include "runtime/base/status.h"
#include "runtime/facts/cuda_arch.h"

namespace reprise::test {

/// Why there is no PTX; empty where NVRTC is installed.
std::string why_no_ptx();

/// CUDA text, which begins with the prelude, as PTX for sm_80. Results are kept in the folder of
/// $REPRISE_STANDIN_CACHE.
Result<std::string> ptx_of_text(const std::string& text, const std::string& name,
                                CudaArch arch = {true, 80});
/// CUDA text without a prelude as PTX for "compute_90a" and the like.
Result<std::string> ptx_for(const std::string& target, const std::string& text);
/// Kernels as one module. Their names must differ.
Result<std::string> ptx_of(std::span<const kernel::Kernel> kernels, CudaArch arch = {true, 80});

}  // namespace reprise::test
