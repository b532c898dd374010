// The prices by which the compiler compares kernels, each with the device and the day of its
// measurement, or "estimate" if none was measured. docs/tuning.md has the measurements.
#pragma once

#include <array>
#include <string_view>

#include "codegen/target/target_facts.h"

namespace reprise::shaders {

// --- CPU-type devices. The unit is a multiply-add of a register of 8 lanes. ---

/// The time to compile unrolled code. It is in milliseconds, but for the last two.
struct CompileCosts {
  double multiply_add, result;
  double square;       // of the number of results
  double instruction;  // of a prologue
  // Factors where finding a row takes divisions by dynamic dims, and where fp16 is decoded.
  double dynamic_rows, fp16;
  double second;       // the fraction of a kernel's time that a second of compilation is worth
  double millisecond;  // the least cost of a millisecond, which decides for small kernels
};

/// What a subgroup tile of a GEMM takes beyond loads, multiply-adds and broadcasts: for each step
/// of 4 values of k, and to store a result. Either rows or columns are by lane.
struct SubgroupTileCosts {
  double rows_step, rows_result, columns_step, columns_result;
};

struct AttentionCosts {
  double gather;  // in tiles of single invocations
  double exp, accumulator;
  double unrolled, unrolled_square;  // an unrolled operation, and the square of their number
};

struct CpuCosts {
  std::string_view measured_on;
  double cores;
  double min_units;  // with fewer units of work, threads are idle
  // A load in subgroup tiles, of four elements or of one in each lane; a load in tiles of single
  // invocations.
  double vector_load, scalar_load, gather;
  double broadcast;
  SubgroupTileCosts subgroup_tile;
  AttentionCosts attention;
  CompileCosts compile;
};

inline constexpr std::array<CpuCosts, 2> kCpuCosts{{
    {
        .measured_on = "llvmpipe of Mesa 25.0.7, 2 cores, 8 lanes; 2026-11-21",
        .cores = 2,
        .min_units = 8,
        .vector_load = 7,
        .scalar_load = 7,
        .gather = 30,
        .broadcast = 0.5,
        .subgroup_tile =
            {.rows_step = 30, .rows_result = 12, .columns_step = 5, .columns_result = 20},
        .attention =
            {.gather = 30, .exp = 6, .accumulator = 1.5, .unrolled = 120, .unrolled_square = 0},
        .compile = {.multiply_add = 0.15,
                    .result = 0.25,
                    .square = 0,
                    .instruction = 0.025,
                    .dynamic_rows = 2.5,
                    .fp16 = 2,
                    .second = 0.25,
                    .millisecond = 1500},
    },
    {
        .measured_on =
            "llvmpipe of Mesa 22.3.6 (workarounds::kSlowLoads), 2 cores, 8 lanes; 2026-11-21",
        .cores = 2,
        .min_units = 8,
        .vector_load = 120,
        .scalar_load = 25,
        .gather = 120,
        .broadcast = 0.5,
        .subgroup_tile = {},
        .attention =
            {.gather = 150, .exp = 6, .accumulator = 1.5, .unrolled = 0, .unrolled_square = 1},
        .compile = {.multiply_add = 0,
                    .result = 0,
                    .square = 0.04,
                    .instruction = 0.025,
                    .dynamic_rows = 2.5,
                    .fp16 = 2,
                    .second = 0.1,
                    .millisecond = 1500},
    },
}};

/// The prices of a CPU-type device, measured on a device whose loads are equally fast.
inline const CpuCosts& cpu_costs(const TargetFacts& device) {
  return kCpuCosts[device.slow_loads() ? 1 : 0];
}

/// The cost of a kernel with the price of compiling it.
inline double with_compile_time(double cost, double milliseconds, const CompileCosts& price) {
  return cost * (1 + price.second * milliseconds / 1000) + price.millisecond * milliseconds;
}

/// Two GEMMs and a softmax as separate kernels, where loads are fast.
struct SeparateAttentionCosts {
  std::string_view measured_on;
  double multiply_add;
  double load, max_rows;  // a load of keys or values, shared by up to so many rows
  double softmax;         // for each score
  double launches;        // of all kernels
};
inline constexpr SeparateAttentionCosts kSeparateAttention{
    // For 16 to 128 keys; larger GEMMs are faster than this.
    .measured_on = "llvmpipe of Mesa 25.0.7, 2 cores, 8 lanes; 2026-11-22",
    .multiply_add = 0.22,
    .load = 0.22,
    .max_rows = 8,
    .softmax = 6,
    .launches = 32000,
};

/// When products compute a normalisation that they alone read.
struct RowsInProductsCosts {
  double launch;   // a launch and the barrier before it, in multiply-adds
  double columns;  // that a unit of a product computes, before which it reads the row
  double loads;    // of vectors, for four elements of the row: for the reduction, and of a factor
};
/// `launch` is an estimate, about a third of kSeparateAttention.launches, which is the price of
/// three launches. `columns` are those of the tiles that products of one row have, and `loads` are
/// chosen so that the products of SmolLM2-135M read normalised rows where computing them took
/// longer: two products of 1,536 columns (llvmpipe of Mesa 26, 2 cores, 8 lanes; 2026-12-01).
inline constexpr RowsInProductsCosts kRowsInProducts{.launch = 10000, .columns = 32, .loads = 5};

/// Where loads are slow, attention is up to 2.5 times as fast in one kernel as in separate ones,
/// except in these ranges of sizes. Their ends are excluded.
struct SeparateAttentionRange {
  double min_elements;                // of a query, a key's value included
  double min_batch;                   // heads
  double min_rows, end_rows;          // of a head
  double min_all_rows, end_all_rows;  // of all heads
  double min_keys;
};
struct SeparateAttentionRanges {
  std::string_view measured_on;
  double time;  // of separate kernels in these ranges, as a fraction of that of one kernel
  std::array<SeparateAttentionRange, 2> ranges;
};
inline constexpr double kNoEnd = 1e300;
inline constexpr SeparateAttentionRanges kSeparateAttentionWins{
    // For 8 to 512 rows and keys, heads of size 32 to 128, and 1 to 12 heads.
    .measured_on = "llvmpipe of Mesa 22.3.6 (workarounds::kSlowLoads), 2 cores; 2026-11-22",
    .time = 0.8,
    .ranges = {{
        // A lane holds many columns while few rows share its loads.
        {.min_elements = 161,
         .min_batch = 0,
         .min_rows = 12,
         .end_rows = kNoEnd,
         .min_all_rows = 24,
         .end_all_rows = 1024,
         .min_keys = 12},
        // 16 rows of several heads.
        {.min_elements = 128,
         .min_batch = 8,
         .min_rows = 12,
         .end_rows = 24,
         .min_all_rows = 0,
         .end_all_rows = kNoEnd,
         .min_keys = 12},
    }},
};

/// From so many rows and keys on, the gradients of an attention take less time as separate kernels,
/// as long as the scores are few: the fused ones compute 7 products instead of 5. Below, the three
/// launches that they save count more.
struct SeparateGradients {
  std::string_view measured_on;
  double min_rows, min_keys;
};
inline constexpr SeparateGradients kSeparateGradients{
    // 1.05 to 1.4 times, for 64 to 512 rows and keys, heads of size 32 to 128, and 8 to 24 heads.
    .measured_on = "llvmpipe of Mesa 25.0.7 and 22.3.6, 2 cores, 8 lanes; 2026-11-27",
    .min_rows = 48,
    .min_keys = 48,
};

// --- GPUs. The unit is a multiply-add of an invocation. ---

/// A device, and what an invocation of it takes.
struct GpuCosts {
  std::string_view measured_on;
  double cores, lanes;
  double latency;            // of memory, and thus the least time of a step that waits for loads
  double load, shared_load;  // of four elements, from global and from shared memory
  double copy;               // of 16 bytes, from global to shared memory, without waiting for them
  double barrier;
  double matrix_load;   // a cooperative matrix of shared memory
  double matrix_speed;  // how many times faster than lanes matrix units multiply
  // F32 as three products of TF32: the same, and what it takes to split a matrix that was loaded.
  double split_speed, split;
  double ends;    // steps: the loads before the first one, and the stores at the end
  double launch;  // steps: a launch takes as long to begin as some loads in sequence
  // A kernel with a second launch must promise to be so many times faster, as nothing was measured.
  double second_launch_gain;
};
inline constexpr GpuCosts kGpuCosts{
    .measured_on = "estimate for a GPU of middling size; 2026-11-21",
    .cores = 60,
    .lanes = 128,
    .latency = 400,
    .load = 30,
    .shared_load = 4,
    .copy = 32,  // 64 bytes a clock from the cache that all cores share
    .barrier = 30,
    .matrix_load = 8,
    .matrix_speed = 8,
    .split_speed = 2,  // 2.7 on A100, 1.6 on H200, from their rates
    .split = 16,
    .ends = 10,
    .launch = 10,
    .second_launch_gain = 1.5,
};

// --- Fusion, which all devices share. The unit is a flop. ---

struct FusionCosts {
  std::string_view measured_on;
  double tile;     // a contraction reads an operand once for so many rows, or columns, of the other
  double element;  // an operator that computes an index, for each element that it reads
};
inline constexpr FusionCosts kFusionCosts{
    .measured_on = "estimate; 2026-11-21",
    .tile = 8,
    .element = 2,
};

}  // namespace reprise::shaders
