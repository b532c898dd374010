// The prices by which kernel templates compare tiles, with the devices that they were measured on.
// The unit is a multiply-add of a register of 8 lanes.
#pragma once

#include <array>
#include <string_view>

#include "shaders/target_facts.h"

namespace reprise::shaders {

struct CpuCosts {
  std::string_view measured_on;
  // A load in subgroup tiles, of four elements or of one in each lane; a load in tiles of single
  // invocations, in GEMMs and in attention.
  double vector_load, scalar_load, gather, attention_gather;
  double step_overhead;  // the weight of StepCost::step and StepCost::result
  // Milliseconds to compile an unrolled multiply-add, a result, and the square of the number of
  // results; the fraction of a kernel's time that a second of compilation is worth.
  double compile_product, compile_result, compile_square, compile_second;
  // Milliseconds to compile an instruction of an unrolled prologue.
  double compile_instruction;
  // The price of an unrolled operation of attention, and of the square of their number.
  double attention_unrolled, attention_unrolled_square;
};

inline constexpr std::array<CpuCosts, 2> kCpuCosts{{
    {"llvmpipe of Mesa 25.0.7, 2 cores, 8 lanes; 2026-11-21", 7, 7, 30, 30, 1, 0.15, 0.25, 0, 0.25,
     0.025, 120, 0},
    {"llvmpipe of Mesa 22.3.6 (workarounds::kSlowLoads), 2 cores, 8 lanes; 2026-11-21", 120, 25,
     120, 150, 0, 0, 0, 0.04, 0.1, 0.025, 0, 1},
}};

/// The prices of a CPU-type device, measured on a device whose loads are equally fast.
inline const CpuCosts& cpu_costs(const TargetFacts& device) {
  return kCpuCosts[device.slow_loads() ? 1 : 0];
}

/// The cost of a kernel with the price of compiling it: a millisecond costs at least 1500, which
/// decides for small kernels.
inline double with_compile_time(double cost, double milliseconds, const CpuCosts& price) {
  return cost * (1 + price.compile_second * milliseconds / 1000) + 1500 * milliseconds;
}
}  // namespace reprise::shaders
