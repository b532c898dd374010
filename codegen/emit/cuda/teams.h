// CUDA text for teams of subgroups (warpgroups): signals (mbarrier), copies of boxes (TMA) and
// products of matrices in shared memory (wgmma). Only sm_90a has them.
#pragma once

#include <string>

#include "codegen/kernel/ir/kernel.h"

namespace reprise::emit {

/// Types and functions, as a part of cuda_prelude().
std::string team_prelude();

/// A form of TeamMulAdd: `count` sums side by side, of 64 rows and so many columns.
struct TeamProduct {
  uint32_t columns = 0, count = 0;
  kernel::Ty type = kernel::Ty::F16;  // of the operands
  bool left_along_k = true, right_along_k = true;
  bool left_held = false;  // by the team, not in a shared array

  std::string name() const;
  /// A function of this name, which takes the sums and the two operands.
  std::string function(const std::string& name) const;
};

}  // namespace reprise::emit
