// Kernel templates for GEMM tiles of one subgroup, on CPU-type devices with subgroups of 8: what
// gemm/subgroup_columns.cpp and gemm/subgroup_rows.cpp share.
//
// On these devices a register holds one value of 8 lanes, a load is a gather that costs as much as
// 7 to 120 multiply-adds, and a shuffle with a constant lane is nearly free. Each lane therefore
// has its own rows (or columns) of the tile, while the other operand is shared: the subgroup loads
// each element once, in one lane, and broadcasts it. No shared memory is used.
//
// The loop order decides whether accumulators stay in registers. For each shared row (or column) in
// turn, all values of k are added at once; with k as the outer loop, every accumulator is spilled.
#pragma once

#include "shaders/contraction.h"

namespace reprise::shaders {

/// What a subgroup does for 4 values of k.
struct StepCost {
  double a_loads;  // times GemmSize::a_loads
  double b_loads;  // vectors of four
  double multiply_adds;
  double shared;  // broadcasts for each value of k
  double step;    // other costs of the step
  double result;  // the cost of storing a result
};

struct SubgroupTile {
  int rows, columns;
  int per_invocation;  // rows or columns of a lane
  StepCost step;
};
/// The tile as a Tile, with its cost.
Tile subgroup_tile(const GemmSize& size, const TargetFacts& device, const SubgroupTile& wanted);

/// Element `i` of vector `v`.
Val vector_element(const std::vector<Values>& values, int v, int i);

/// Adds the products of a step to acc(shared, own), one shared row (or column) after another. The
/// products are added up before they meet the accumulator, which is rounded once in each step then:
/// long sums lose less, at the same number of operations.
/// `own` and `shared` return an operand's element at the k-th value of the step.
using StepOperand = std::function<Val(int index, int k)>;
void add_products(kernel::Builder& b, LocalGrid& acc, int depth, const StepOperand& own,
                  const StepOperand& shared);

}  // namespace reprise::shaders
