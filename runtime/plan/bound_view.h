// A view of a tensor (runtime/base/tensor_view.h) with the values of a launch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/tensor_view.h"

namespace reprise::plan {

/// What a device needs to write its form of a view (Device::write_view).
struct BoundView {
  uint64_t address = 0;
  uint32_t element_bytes = 0;
  Swizzle swizzle = Swizzle::None;
  size_t rank = 0;
  std::array<uint64_t, TensorView::kMostRank> dims{};     // in elements
  std::array<uint64_t, TensorView::kMostRank> strides{};  // in bytes
  std::array<uint32_t, TensorView::kMostRank> box{};      // in elements

  /// Whether it has no elements. No device has a form of such a view, and no kernel copies of it.
  bool is_empty() const {
    for (size_t d = 0; d < rank; ++d)
      if (dims[d] == 0) return true;
    return false;
  }
};
/// Reads the values from the parameter block of a kernel with so many buffers.
BoundView bind_view(const TensorView& v, size_t buffers, std::span<const std::byte> block);

}  // namespace reprise::plan
