// States of a plan that launches update in place.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "codegen/kernel/ir/kernel.h"
#include "codegen/lower/group/group.h"
#include "runtime/plan/plan.h"

namespace reprise {

/// The kernel of a launch that is not in the plan's table yet.
struct PendingKernel {
  kernel::Kernel kernel;
  std::optional<size_t> number;  // kernels with the same number are equal
  const lower::Group* group = nullptr;
  bool commits = false;  // plan::Launch
};

/// Makes launches write the next value of a state to the state itself wherever one launch computes
/// it, nothing else needs the old value afterwards, and the kernel replaces elements one by one.
/// Then the plan has no NextState buffer for it. The others keep theirs. If a step may fail, these
/// launches commit: they follow it, and it does not depend on them. The steps must be in a
/// valid sequential order, and are again afterwards. `pending` is parallel to them; it has nothing
/// for host calls. Returns the new index of each step.
std::vector<uint32_t> update_states_in_place(plan::Plan& p,
                                             std::vector<std::optional<PendingKernel>>& pending,
                                             std::span<const SymbolSource> sources,
                                             const kernel::LegalizeFor& target);

}  // namespace reprise
