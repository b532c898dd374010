// Prices that schedules compare tiles by, as data with the devices that they were measured on. The
// unit is a multiply-add of a register of 8 lanes.
#pragma once

#include <array>
#include <string_view>

#include "shaders/target_facts.h"

namespace reprise::shaders {

struct CpuCosts {
  std::string_view measured_on;
  // Loads of a subgroup, of four elements or of one in each lane; those of invocations for
  // themselves, by GEMMs and by attention.
  double vector_load, scalar_load, gather, attention_gather;
  double step_overhead;  // how much of StepCost::step and StepCost::result counts
  // Milliseconds to compile a multiply-add that is written out and a result, and of the square of
  // results; how much of a kernel's time a second of them is worth.
  double compile_product, compile_result, compile_square, compile_second;
  // What is written out of attention, and its square.
  double attention_written, attention_written_square;
};

inline constexpr std::array<CpuCosts, 2> kCpuCosts{{
    {"llvmpipe of Mesa 25.0.7, 2 cores, 8 lanes; 2026-11-21", 7, 7, 30, 30, 1, 0.15, 0.25, 0, 0.25,
     120, 0},
    {"llvmpipe of Mesa 22.3.6 (workarounds::kSlowLoads), 2 cores, 8 lanes; 2026-11-21", 120, 25,
     120, 150, 0, 0, 0, 0.04, 0.1, 0, 1},
}};

/// Of CPU-type devices: what was measured on those with the same loads.
inline const CpuCosts& cpu_costs(const TargetFacts& device) {
  return kCpuCosts[device.slow_loads() ? 1 : 0];
}

}  // namespace reprise::shaders
