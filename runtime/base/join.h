// Tensors side by side along an axis.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/base/tensor.h"

namespace reprise {

/// Tensors that are one, but stay apart in memory. Their dims differ only along the axis.
struct JoinedTensors {
  size_t axis = 0;
  std::vector<HostTensor> parts;
};

/// How often the parts take turns: the product of the dims before the axis.
uint64_t rows_before(std::span<const int64_t> dims, size_t axis);
/// A copy of the parts as one tensor of these dims.
HostTensor join(std::span<const HostTensor> parts, std::vector<int64_t> dims, size_t axis);

}  // namespace reprise
