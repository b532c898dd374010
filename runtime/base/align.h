// Alignment of sizes and offsets.
#pragma once

#include <cstdint>

namespace reprise {

/// The smallest multiple of `alignment`, which must not be 0, that is at least `value`. The result
/// must fit 64 bits.
constexpr uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace reprise
