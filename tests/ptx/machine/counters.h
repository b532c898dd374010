// What memory a GPU would have to move for the accesses of a launch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace reprise::test::ptx {

/// Shared memory has 32 banks of 4 bytes, each of which gives one word in a pass. A warp's access
/// takes as many passes as the bank with most of its words has; the least are those of the words if
/// they were spread evenly.
struct Banks {
  uint64_t passes = 0, least = 0;
  double conflicts() const {
    return least == 0 ? 1 : static_cast<double>(passes) / static_cast<double>(least);
  }
};

/// Who accesses shared memory: ld and st, cp.async, ldmatrix and stmatrix.
enum class Mover : uint8_t { Load, Store, Copy, Blocks };

struct Counters {
  std::array<Banks, 4> banks;  // by Mover
  /// Global memory moves in sectors of 32 bytes; `bytes` of these are used.
  uint64_t sectors = 0, bytes = 0;

  const Banks& of(Mover m) const { return banks[static_cast<size_t>(m)]; }
  /// Of all movers together.
  Banks shared_memory() const;
  double sector_use() const {
    return sectors == 0 ? 1 : static_cast<double>(bytes) / static_cast<double>(32 * sectors);
  }

  using Addresses = std::array<uint64_t, 32>;  // by lane
  /// Lanes of more than 4 bytes take turns: 8, 16 or 32 of them at a time.
  void shared(Mover m, uint32_t mask, const Addresses& at, uint32_t bytes_of_lane);
  void global(uint32_t mask, const Addresses& at, uint32_t bytes_of_lane);
};

}  // namespace reprise::test::ptx
