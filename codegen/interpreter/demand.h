// Which instructions all invocations have to execute where the stores of only some of them count.
#pragma once

#include <vector>

#include "codegen/kernel/kernel.h"

namespace reprise::kernel {

/// Whether the kernel uses values of other lanes of its subgroups.
bool exchanges_lanes(const Kernel& k);

/// For each instruction, whether every invocation has to execute it although few stores count:
/// control flow, shared memory, or an access whose index or execution depends on data needs it. All
/// other instructions only contribute to what their own subgroup stores.
std::vector<bool> needed_everywhere(const Kernel& k);

}  // namespace reprise::kernel
