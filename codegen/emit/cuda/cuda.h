// Kernel IR -> CUDA C text without includes (decision 10): extern "C" __global__ void
// k_NAME(k_NAME_block block), the parameter block by value, so that it lies in constant memory.
// Deterministic. `prelude()` holds what only PTX or the host can do, and is emitted once
// per module.
#pragma once

#include <span>
#include <string>

#include "codegen/kernel/kernel.h"

namespace reprise::emit {

/// One kernel: its parameter struct and function.
Result<std::string> cuda(const kernel::Kernel& k);
/// Text that precedes any number of kernels in one translation unit.
std::string cuda_prelude();

}  // namespace reprise::emit
