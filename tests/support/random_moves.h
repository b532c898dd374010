// Random kernels that move elements: by vectors of all lengths, between buffers of all narrow types
// and shared memory, in all orders that are safe.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/kernel/ir/kernel.h"

namespace reprise::test {

/// Each of the invocations (32 of a workgroup) owns `owned` elements of every buffer, a multiple of
/// 16.
struct RandomMoves {
  static constexpr uint32_t kWorkgroup = 32;
  kernel::Kernel kernel;
  std::vector<std::vector<std::byte>> buffers;  // for two workgroups
};

Result<RandomMoves> random_moves(uint64_t seed, int owned);

}  // namespace reprise::test
