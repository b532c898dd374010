// Where the steps of recurrent layers leave the range of fp32.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/host/host_kernels.h"

namespace reprise::fuzz {

/// The inputs of RecurrentSteps.
enum RecurrentInput : uint8_t { kX, kR, kBias, kLengths, kH, kC, kPeepholes };

/// For each element of the results of RecurrentSteps: whether fp32 may give anything there. The
/// host's gates and states are in double. An element is marked if a number on the way to it is
/// finite in double and not in fp32, or is 0 only in fp32 and is multiplied by an infinity.
Result<std::vector<std::vector<bool>>> beyond_fp32(const host::Call& call);

}  // namespace reprise::fuzz
