// Prints kernel IR as CUDA C: extern "C" __global__ void k_NAME(k_NAME_block block). The parameter
// block is passed by value, so that it is in constant memory. The text has no includes, so
// compiling it needs no CUDA headers, and a host compiler can compile it as well. It is
// deterministic. cuda_prelude() has the functions that need PTX or differ on the host; it is
// emitted once per module.
#pragma once

#include <span>
#include <string>

#include "codegen/kernel/ir/kernel.h"

namespace reprise::emit {

/// The text of one kernel: its parameter struct and function.
Result<std::string> cuda(const kernel::Kernel& k);
/// The text that precedes the kernels of a translation unit.
std::string cuda_prelude();

}  // namespace reprise::emit
