// Buffers of hand-made plans by their numbers.
#pragma once

#include <concepts>
#include <vector>

#include "runtime/plan/plan.h"

namespace reprise::test {

/// The number -1 is no buffer.
inline std::vector<plan::BufferId> buffers(std::same_as<int> auto... numbers) {
  return {plan::BufferId(numbers)...};
}

}  // namespace reprise::test
