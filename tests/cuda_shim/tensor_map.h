// The stand-in driver's tensor map: what its cuTensorMapEncodeTiled writes, and what the executor
// of PTX reads. A real driver's is opaque, so nobody else looks inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "backends/cuda/api.h"

namespace reprise::test {

/// In an application's 128 bytes, little-endian, from offset 0:
///
/// | offset | bytes | what |
/// |-------:|------:|------|
/// |      0 |     8 | kTensorMapMagic |
/// |      8 |     8 | address of element 0 |
/// |     16 |  5x 8 | elements in each dimension, the innermost first; 1 beyond the rank |
/// |     56 |  5x 8 | bytes from an element to the next one in each dimension, the element's size
/// |        |       | in the first; 0 beyond the rank |
/// |     96 |  5x 2 | elements that a box spans in each dimension; 1 beyond the rank |
/// |    106 |  5x 1 | of these, every nth is copied; 1 beyond the rank |
/// |    111 |     1 | CUtensorMapDataType |
/// |    112 |     1 | rank |
/// |    113 |     1 | CUtensorMapInterleave |
/// |    114 |     1 | CUtensorMapSwizzle: 0 none, 1 to 3 are 32, 64 and 128 bytes |
/// |    115 |     1 | CUtensorMapL2promotion |
/// |    116 |     1 | CUtensorMapFloatOOBfill |
/// |    117 |    11 | zeros |
struct TensorMap {
  static constexpr uint32_t kDims = 5;
  uint64_t magic;
  uint64_t address;
  uint64_t dims[kDims];
  uint64_t strides[kDims];
  uint16_t box[kDims];
  uint8_t steps[kDims];
  uint8_t type, rank, interleave, swizzle, l2_promotion, fill;
  uint8_t unused[11];

  /// Elements of a box that are copied, in one dimension.
  uint32_t count(uint32_t dim) const { return (box[dim] + steps[dim] - 1U) / steps[dim]; }
};
static_assert(sizeof(TensorMap) == 128 && offsetof(TensorMap, box) == 96 &&
              offsetof(TensorMap, type) == 111 && offsetof(TensorMap, unused) == 117);
inline constexpr uint64_t kTensorMapMagic = 0x50414D5F524F5354;  // "TSOR_MAP"
inline constexpr uint64_t kTensorMapAlignment = 64;              // of a map's own address

/// The arguments of cuTensorMapEncodeTiled after the first.
struct TensorMapArguments {
  cuda::CUtensorMapDataType type;
  uint32_t rank;
  uint64_t address;
  const uint64_t* dims;
  const uint64_t* strides;  // rank - 1 of them
  const uint32_t* box;
  const uint32_t* steps;
  cuda::CUtensorMapInterleave interleave;
  cuda::CUtensorMapSwizzle swizzle;
  cuda::CUtensorMapL2promotion l2_promotion;
  cuda::CUtensorMapFloatOOBfill fill;
};

/// Writes the map, or says which of the driver's rules does not hold. The rules are those that the
/// CUDA Driver API reference (13.0) has for devices of compute capability 9.0.
std::string encode_tensor_map(void* map, const TensorMapArguments& a);

}  // namespace reprise::test
