// Follows the warps of one workgroup through a kernel and counts what they take. Only integers are
// computed; where data decide on a branch, the shorter way counts.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "codegen/device_model/program.h"

namespace reprise::device_model {

/// Clocks until a result can be used.
struct Latencies {
  double arithmetic = 4, conversion = 8, special = 20, exchange = 24, matrix = 33;
  double shared = 29, matrix_load = 33;
  double cache = 270, memory = 620;  // global memory: of the L2 cache, and behind it
  double barrier = 30, branch = 8;
};

/// How a launch starts a kernel.
struct Start {
  std::array<uint32_t, 3> grid{1, 1, 1}, workgroup{1, 1, 1};
  std::span<const std::byte> block;  // the parameter block, with an address for each buffer
};

/// What one workgroup takes. Counts of instructions are those of warps.
struct Work {
  double warps = 0;
  double instructions = 0;                                       // slots of schedulers
  double integer = 0, conversion = 0, doubles = 0, special = 0;  // parts of them, by unit
  double products = 0, warpgroup_products = 0;  // multiply-adds of matrix units, in those of fp16
  double shared_passes = 0;                     // of 128 bytes
  double global_lines = 0;                      // lines of 128 bytes that accesses of warps touch
  double sectors = 0;     // of 32 bytes that come from L2 or go there, each read once
  double bulk_bytes = 0;  // of copies that no warp executes
  double barriers = 0;
  /// Clocks that the slowest warp takes if nothing else runs, where global memory is found in the
  /// L2 cache, and where it is not.
  double near_chain = 0, far_chain = 0;
  bool guessed = false;  // data decide on a branch or an address
};

/// Fails if a kernel does not end within `most_steps` instructions of warps.
Result<Work> walk(const Program& program, const Start& start, const Latencies& latencies,
                  uint64_t most_steps = 50'000'000);

}  // namespace reprise::device_model
