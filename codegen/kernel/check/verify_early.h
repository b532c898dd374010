#pragma once

#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {

/// Checks that a kernel that awaits earlier launches does so once, whatever its control flow, and
/// accesses no buffer before.
Status verify_early(const Kernel& k);

}  // namespace reprise::kernel
