// Launches of a plan that become one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codegen/kernel/ir/kernel.h"
#include "runtime/plan/plan.h"

namespace reprise {

/// Replaces launches of one kernel that do not wait for each other by a launch of a kernel of
/// several items: an optimiser's updates of all parameters become a few launches. Launches of the
/// same level become one. So do launches at any levels that no step waits for and that use no
/// intermediate tensors, whose memory would be taken for longer; they run at the level of the last.
/// Fewer than `fewest` stay apart, because another kernel would not pay.
///
/// Launch::kernel is an index into `kernels`; kernels are appended there, and all remain. The steps
/// must be in a valid sequential order, and are again afterwards. Returns the new index of each
/// step.
Result<std::vector<uint32_t>> batch_launches(plan::Plan& p, std::vector<kernel::Kernel>& kernels,
                                             std::span<const SymbolSource> sources, size_t fewest);

}  // namespace reprise
