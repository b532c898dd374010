// Kernels that do the work of several launches in one.
#pragma once

#include "codegen/kernel/kernel.h"

namespace reprise::kernel {

/// Whether batch() accepts the kernel: one item, and a grid of which only x matters.
bool can_batch(const Kernel& k);

/// A kernel of `items` items, at least 2. The workgroups of item i are those from number first(i)
/// on in x, where first(i) is the last scalar parameter of the item. first(0) is 0, and the numbers
/// do not decrease. Builtins count from there, and Builtin::NumWorkgroups is not used.
Result<Kernel> batch(const Kernel& k, uint32_t items);

}  // namespace reprise::kernel
