// Launches of a plan that become one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codegen/kernel/kernel.h"
#include "runtime/plan/plan.h"

namespace reprise {

/// Replaces launches of one kernel that do not wait for each other by a launch of a kernel of
/// several items: an optimiser's updates of all parameters become a few launches. Launches of the
/// same level become one, and so do launches that no step waits for, which run at the level of the
/// last of them. Large launches, which occupy a device by themselves, stay apart, and so do fewer
/// than `fewest`, for which another kernel would not pay.
///
/// Launch::kernel is an index into `kernels`; kernels are appended there, and all remain. The steps
/// must be in a valid sequential order, and are again afterwards. Returns the new index of each
/// step.
Result<std::vector<uint32_t>> batch_launches(plan::Plan& p, std::vector<kernel::Kernel>& kernels,
                                             std::span<const SymbolSource> sources, size_t fewest);

}  // namespace reprise
