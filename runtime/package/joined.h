// Weights that are several others side by side. They arise when products of one operand are merged:
// the file stores each weight once, and what reads the merged one reads its parts. Internal to
// runtime/package.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/package/package.h"

namespace reprise::package {

/// Checks that the parts of all joined weights exist, have bytes of their own and fit.
Status check_joined(const Package& p);
/// The parts of a joined weight as one tensor.
Result<HostTensor> load_joined(const Package& p, uint32_t index);
/// package::read_weight() of a joined weight. Its parts are read side by side, so that little of
/// them is in memory at a time.
Status read_joined(const Package& p, uint32_t index, uint64_t unit, std::vector<std::byte>& scratch,
                   const UseWeightPiece& use);

}  // namespace reprise::package
