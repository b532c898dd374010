// Tiles that a subgroup of 8 lanes computes without memory between its lanes, for CPU-type devices,
// where a register holds one value of 8 lanes, every load is a gather of 7 to 120 multiply-adds,
// and a shuffle with a constant lane costs next to nothing. Each lane has rows or columns of its
// own; what all lanes share of the other operand is loaded once by the subgroup and broadcast.
//
// The order of the multiply-adds decides whether accumulators stay in registers: for one shared row
// (or column) after another, all positions at once. The other way round everything is spilled.
#pragma once

#include "shaders/contraction.h"

namespace reprise::shaders {

/// What a unit does for 4 values of k: loads of A as often as a row needs them, of B in vectors of
/// four, multiply-adds, and broadcasts of what its lanes share; what else a step costs, and a
/// result that is stored.
struct StepCost {
  double a_loads, b_loads, products, shared, step, result;
};

struct SubgroupTile {
  int rows, columns;
  int own;  // rows or columns of a lane
  StepCost step;
};
/// With its cost.
Tile subgroup_tile(const GemmSize& size, const TargetFacts& device, const SubgroupTile& wanted);

/// Element `i` of vector `v`.
Val vector_element(const std::vector<Values>& values, int v, int i);

/// Adds the products of a step to acc(shared, own), for one shared row (or column) after another.
/// `own` and `shared` give the operands at a k of the step.
using StepOperand = std::function<Val(int index, int k)>;
void add_products(kernel::Builder& b, LocalGrid& acc, int depth, const StepOperand& own,
                  const StepOperand& shared);

}  // namespace reprise::shaders
