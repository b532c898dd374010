// Which instructions all invocations must execute even if only the stores of some of them count.
#pragma once

#include <vector>

#include "codegen/kernel/kernel.h"

namespace reprise::kernel {

/// Whether the kernel uses values of other lanes of its subgroups.
bool exchanges_lanes(const Kernel& k);

/// For each instruction, whether every invocation must execute it even if few stores count: because
/// control flow, shared memory, or an access whose index or execution depends on data needs it. All
/// other instructions contribute only to stores of their own subgroup.
std::vector<bool> needed_everywhere(const Kernel& k);

}  // namespace reprise::kernel
