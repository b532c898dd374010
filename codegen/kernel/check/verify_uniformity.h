// Checks that invocations reach together what they must reach together.
#pragma once

#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {

/// Barriers and SelectItem must be in control flow that is uniform in the workgroup, operations on
/// matrices in control flow that is uniform in the subgroup, with uniform operands. Conservative:
/// an error says that this is not proven. The kernel's structure must have been verified.
Status verify_uniformity(const Kernel& k);

}  // namespace reprise::kernel
