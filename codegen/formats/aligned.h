// Tensors whose bytes lie in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/tensor.h"

namespace reprise::formats {

/// A view of the bytes, which `owner` keeps alive, or a copy if they begin where no element may:
/// formats let tensors begin at any byte, but readers of a HostTensor load whole elements.
HostTensor aligned_tensor(DType dtype, std::vector<int64_t> dims, std::span<const std::byte> bytes,
                          std::shared_ptr<const void> owner);

}  // namespace reprise::formats
