// A tensor in a buffer of a launch, as kernels see it that copy boxes of it to shared memory. Its
// place and sizes are among the buffers and scalars of the launch's parameter block, so that a
// session writes the device's form of it where it writes these (runtime/plan/bound_view.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/status.h"

namespace reprise {

/// How the 16-byte parts of neighbouring lines lie in shared memory, so that reads of a column of
/// them meet different banks. Values are written into packages: never renumber.
enum class Swizzle : uint8_t { None = 0, B32 = 1, B64 = 2, B128 = 3 };
/// The bytes of a line; 0 without a swizzle.
constexpr uint32_t span_of(Swizzle s) {
  return s == Swizzle::None ? 0 : 16U << static_cast<uint32_t>(s);
}

struct TensorView {
  static constexpr size_t kMostRank = 5;
  static constexpr uint32_t kMostBox = 256;     // elements along a dimension
  static constexpr uint32_t kAlignment = 16;    // of the tensor and of its strides, in bytes
  static constexpr uint32_t kCodedBytes = 128;  // of a device's form

  uint32_t buffer = 0;         // index into the launch's buffers
  uint32_t element_bytes = 0;  // 1, 2, 4 or 8
  Swizzle swizzle = Swizzle::None;
  // What follows is ordered from the innermost dimension, whose elements lie side by side. There is
  // an entry for each dimension.
  std::vector<uint32_t> box;  // in elements
  // Indices into the launch's scalars.
  uint32_t first = 0;             // the index of element 0, in elements
  std::vector<uint32_t> dims;     // in elements
  std::vector<uint32_t> strides;  // the distance of neighbours, in elements; the innermost's is 1
                                  // and has no entry

  size_t rank() const { return box.size(); }
  uint64_t box_elements() const {
    uint64_t n = 1;
    for (const uint32_t b : box) n *= b;
    return n;
  }
  uint64_t box_bytes() const { return box_elements() * element_bytes; }
  friend bool operator==(const TensorView&, const TensorView&) = default;
};
/// Checks all numbers but the scalars' values, for a kernel with so many buffers and scalars.
Status verify_view(const TensorView& v, size_t buffers, size_t scalars);

}  // namespace reprise
