#pragma once

#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {

/// Checks that every load from a buffer that the kernel also stores to follows a store by the same
/// invocation to the same element. The kernel must verify.
Status verify_reloads(const Kernel& k);

}  // namespace reprise::kernel
