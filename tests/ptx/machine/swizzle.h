// How lines of 16 bytes are exchanged within 128 bytes of shared memory.
#pragma once

#include <cstdint>

namespace reprise::test::ptx {

/// `mode` is 0 for none, 1 to 3 for spans of 32, 64 and 128 bytes: the place of 16 bytes within the
/// span is exchanged by the number of the 128 bytes in which it lies. `base` is the number at which
/// the pattern begins.
inline uint64_t swizzled(uint64_t address, uint32_t mode, uint64_t base = 0) {
  const uint64_t line = (address >> 7) - base;
  return address ^ (line & ((uint64_t{1} << mode) - 1)) << 4;
}

}  // namespace reprise::test::ptx
