#include "shaders/subgroup_tile.h"

#include <cmath>

namespace reprise::shaders {

namespace {

/// In multiply-adds of a register.
double cost_of(const GemmSize& size, const TargetFacts& device, const Tile& t, const StepCost& w) {
  // A driver of slow loads loops over lanes and components.
  const double vector = device.slow_loads() ? 120 : 7, scalar = device.slow_loads() ? 25 : 7;
  const double loads =
      w.a_loads * size.a_loads * (size.a_loads < 4 ? vector : scalar) + w.b_loads * vector;
  const double units = size.batch * std::ceil(size.m / t.rows) * std::ceil(size.n / t.columns);
  constexpr double kBroadcast = 0.5;
  double step = loads + w.products + kBroadcast * 4 * w.shared, result = 0;
  if (!device.slow_loads()) {
    step += w.step;
    result = w.result;
  }
  const double results = w.products / 4;
  double cost = units * (size.k / 4 * step + results * result);
  if (units < kEnoughUnits) cost *= kEnoughUnits / units;
  // Compiling takes 0.15 ms for a multiply-add that is written out and 0.25 for a result, more
  // where pixels are found by dividing by dynamic dims or halves are decoded; with the older driver
  // 40 us times the square of the results (all measured). A second of it is worth a quarter of a
  // kernel's time, a tenth with that driver, whose kernels are slower, and for small kernels 1500
  // runs.
  double compile_ms = results * (0.15 * size.unrolled + 0.25);
  if (size.dynamic) compile_ms *= 2.5;
  if (size.half) compile_ms *= 2;
  if (device.slow_loads()) compile_ms = 0.04 * results * results;
  const double second = device.slow_loads() ? 0.1 : 0.25;
  return cost * (1 + second * compile_ms / 1000) + 1500 * compile_ms;
}

}  // namespace

Tile subgroup_tile(const GemmSize& size, const TargetFacts& device, const SubgroupTile& wanted) {
  Tile t;
  t.rows = wanted.rows;
  t.columns = wanted.columns;
  t.own = wanted.own;
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
      Value total = acc.load(s, o);
      for (int k = 0; k < depth; ++k)
        total = multiply_add(b, ys[static_cast<size_t>(k)], own(o, k), total, false);
      acc.store(s, o, total);
    }
  }
}

}  // namespace reprise::shaders
