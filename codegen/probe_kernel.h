// What a probe depends on of its kernel.
#pragma once

#include "codegen/kernel/kernel.h"

namespace reprise {

/// Whether devices may round results of the kernel as they like.
bool computes_floats(const kernel::Kernel& k);
/// Whether it calls functions that devices compute with an error of their own.
bool has_native_functions(const kernel::Kernel& k);
/// Whether what the kernel gives depends on the size of subgroups.
bool uses_subgroups(const kernel::Kernel& k);

}  // namespace reprise
