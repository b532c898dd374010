// The values of a register in the 32 lanes of a warp, as far as they are known.
#pragma once

#include <array>
#include <cstdint>

#include "codegen/device_model/program.h"

namespace reprise::device_model {

constexpr uint32_t kLanes = 32;
constexpr uint32_t kAllLanes = ~0U;

struct Lanes {
  uint32_t known = 0;   // a bit for each lane
  bool uniform = true;  // all lanes have the value of the first one
  std::array<uint64_t, kLanes> value{};

  uint64_t operator[](uint32_t lane) const { return value[uniform ? 0 : lane]; }
  bool is_known() const { return known == kAllLanes; }
  static Lanes of(uint64_t v) { return {kAllLanes, true, {v}}; }
  /// Before lanes get values of their own.
  void spread() {
    if (uniform) value.fill(value[0]);
    uniform = false;
  }
};

/// The result of an operation on integers; `operands` has those that the operation takes.
uint64_t computed(const Instruction& i, const std::array<uint64_t, 4>& operands);

/// The sectors of 32 bytes that lanes of `mask` touch; sorted, each once. `count` of them.
struct Sectors {
  std::array<uint64_t, kLanes * 2> sector{};
  uint32_t count = 0;
};
Sectors sectors_of(const Lanes& addresses, int64_t offset, uint32_t bytes, uint32_t mask);
/// How many passes of 128 bytes through the 32 banks of shared memory an access takes.
uint32_t passes_of(const Lanes& addresses, int64_t offset, uint32_t bytes, uint32_t mask);

}  // namespace reprise::device_model
