// Properties of a kernel on which its probe depends.
#pragma once

#include "codegen/kernel/ir/kernel.h"

namespace reprise {

/// Whether the kernel computes floats, which devices may round differently.
bool computes_floats(const kernel::Kernel& k);
/// Whether the kernel calls native functions, whose error depends on the device.
bool has_native_functions(const kernel::Kernel& k);
/// Whether the kernel's results depend on the subgroup size.
bool uses_subgroups(const kernel::Kernel& k);

}  // namespace reprise
