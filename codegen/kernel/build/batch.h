// Kernels that do the work of several launches in one.
#pragma once

#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {

/// Whether batch() accepts the kernel: it has one item, only x of its grid matters, and it reports
/// no errors, whose message names the nodes of a launch.
bool can_batch(const Kernel& k);

/// A kernel of `items` items, at least 2. The workgroups of item i begin at number first(i) in x,
/// which is the last scalar parameter of the item. first(0) is 0, and the numbers do not decrease.
/// The numbers of workgroups and invocations that the kernel sees begin at 0 for each item.
Result<Kernel> batch(const Kernel& k, uint32_t items);

}  // namespace reprise::kernel
