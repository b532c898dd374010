#include "shaders/subgroup_tile.h"

#include <cmath>

#include "codegen/target/device_costs.h"

namespace reprise::shaders {

namespace {

/// The unit is a multiply-add of a register.
double cost_of(const GemmSize& size, const TargetFacts& device, const Tile& t, const StepCost& w) {
  const CpuCosts& price = cpu_costs(device);
  const double a_load = size.a_loads < 4 ? price.vector_load : price.scalar_load;
  const double loads = w.a_loads * size.a_loads * a_load + w.b_loads * price.vector_load;
  const double units = tiles_of(size, t.rows, t.columns);
  double step = loads + w.multiply_adds + price.broadcast * 4 * w.shared;
  step += w.step;
  const double results = w.multiply_adds / 4;
  double cost = units * (size.k / 4 * step + results * w.result);
  if (units < price.min_units) cost *= price.min_units / units;
  const CompileCosts& compile = price.compile;
  double compile_ms = results * (compile.multiply_add * size.unrolled + compile.result);
  if (size.dynamic) compile_ms *= compile.dynamic_rows;
  if (size.mma == kHalfMma) compile_ms *= compile.fp16;
  compile_ms += compile.square * results * results;
  compile_ms += compile.instruction * prologue_instructions(size, w.a_loads, w.b_loads);
  return with_compile_time(cost, compile_ms, compile);
}

}  // namespace

Tile subgroup_tile(const GemmSize& size, const TargetFacts& device, const SubgroupTile& wanted) {
  Tile t;
  t.rows = wanted.rows;
  t.columns = wanted.columns;
  t.per_invocation = wanted.per_invocation;
  t.unit = Unit::Subgroup;
  t.workgroup = t.subgroup_size = kCpuLanes;
  t.cost = cost_of(size, device, t, wanted.step);
  return t;
}

Val vector_element(const std::vector<Values>& values, int v, int i) {
  return values[static_cast<size_t>(v)][static_cast<size_t>(i)];
}

void add_products(kernel::Builder& b, LocalGrid& acc, int depth, const StepOperand& own,
                  const StepOperand& shared) {
  std::vector<Val> ys(static_cast<size_t>(depth));
  for (int s = 0; s < acc.rows(); ++s) {
    for (int k = 0; k < depth; ++k) ys[static_cast<size_t>(k)] = shared(s, k);
    for (int o = 0; o < acc.columns(); ++o) {
      Value sum = b.mul(ys[0], own(o, 0));
      for (int k = 1; k < depth; ++k)
        sum = multiply_add(b, ys[static_cast<size_t>(k)], own(o, k), sum, false);
      acc.store(s, o, acc.load(s, o) + sum);
    }
  }
}

}  // namespace reprise::shaders
