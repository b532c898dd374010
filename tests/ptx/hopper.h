// PTX by hand for sm_90a, with tensor maps as parameters.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/cuda_shim/tensor_map.h"
#include "tests/ptx/assembly.h"

namespace reprise::test {

/// What a kernel gets: two buffers, and two maps that a test may make of them.
struct HopperMemory {
  uint32_t threads = 128, shared = 1 << 16;
  std::vector<std::byte> in, out;
  static constexpr uint64_t kIn = uint64_t{1} << 36, kOut = uint64_t{2} << 36;

  std::array<TensorMap, 2> maps{};
  std::array<uint32_t, 3> grid{1, 1, 1}, cluster{1, 1, 1};  // in workgroups
  ptx::Options options;
};

/// A tensor of so many elements in each dimension, and boxes of it.
struct BoxedTensor {
  cuda::CUtensorMapDataType type = cuda::CU_TENSOR_MAP_DATA_TYPE_UINT16;
  std::vector<uint64_t> dims;
  std::vector<uint32_t> box, steps;
  uint32_t swizzle = 0;

  uint32_t element_bytes() const;
  /// Bytes from an element to the next one in each dimension: lines are multiples of 16 bytes.
  std::vector<uint64_t> strides() const;
  uint64_t bytes() const;
  uint32_t box_bytes() const;
  TensorMap map(uint64_t address) const;
};

/// An entry "k" of `body`, which has the buffers' addresses in %in and %out, the maps' generic ones
/// in %map0 and %map1, the thread's number in %t, and may use %r0 to %r63 (b32), %q0 to %q15 (b64),
/// %f0 to %f127, %p0 to %p7 and the shared array smem.
std::string hopper_text(const std::string& body);
Status run_hopper(const std::string& body, HopperMemory& m);
/// The lines that wait for a phase of the mbarrier at an address that is a register or a number.
std::string wait_for(const std::string& address, const std::string& parity);

}  // namespace reprise::test
