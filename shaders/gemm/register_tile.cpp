// Kernel template: GEMM in registers, for every device.
//
// An invocation computes rows x columns of C (at most 8 x 8) from its own loads: for each step of
// k it loads a vector of each of its rows and columns and adds the products to private variables.
// There is no shared memory, no subgroup operation and no barrier, and a workgroup has at most 64
// invocations, so it runs on every device. It suits CPU-type devices, where vector loads and reuse
// in registers decide the speed, and small GEMMs on GPUs.
#include <algorithm>
#include <array>
#include <cmath>

#include "codegen/target/device_costs.h"
#include "shaders/contraction.h"

namespace reprise::shaders {

namespace {

constexpr int kColumns = 8;

/// The elements of B in a step, as [k][column].
Result<std::vector<Values>> load_b_step(const TileWork& w, const std::vector<Column>& columns,
                                        const KStep& step) {
  const bool along_k = w.gemm.b_along_k();
  std::vector<Values> by_k(static_cast<size_t>(step.depth()));
  for (const Column& column : columns) {
    for (size_t k = 0; k < (along_k ? 1 : by_k.size()); ++k) {
      const Value at = w.gemm.builder().i32(static_cast<int64_t>(k));
      RP_ASSIGN(const Values v, w.gemm.load_b(column, step, at));
      for (size_t i = 0; i < v.size(); ++i) by_k[along_k ? i : k].push_back(v[i]);
    }
  }
  return by_k;
}

class RegisterSchedule final : public Schedule {
 public:
  const char* name() const override { return "register tile"; }

  std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& device) const override {
    Tile t;
    t.rows = static_cast<int>(std::clamp(size.m, 1.0, device.cpu_type() ? 8.0 : 4.0));
    t.columns = kColumns;
    t.workgroup = device.cpu_type() ? 16 : 64;
    t.fma = !device.cpu_type();
    // Loads of one invocation for 4 values of k. A register of 8 invocations takes as many.
    const double a_loads = t.rows * size.a_loads;
    const double units = tiles_of(size, t.rows, t.columns);
    const double steps = size.k / 4;
    const double multiply_adds = 4.0 * t.rows * t.columns;
    if (device.cpu_type()) {
      const CpuCosts& price = cpu_costs(device);
      const double compile_ms =
          price.compile.instruction * prologue_instructions(size, t.rows, kColumns / 4.0);
      const double time =
          units / kCpuLanes * steps * (price.gather * (a_loads + kColumns) + multiply_adds);
      t.cost = with_compile_time(time, compile_ms, price.compile);
    } else {
      t.cost = gpu_time(std::ceil(units / t.workgroup), t.workgroup, steps,
                        kGpuCosts.load * (a_loads + kColumns * size.b_loads) + multiply_adds);
    }
    return {t};
  }

  Status write(const TileWork& w) const override {
    const Tile& tile = w.tile;
    kernel::Builder& b = w.gemm.builder();
    const int vecs = tile.columns / 4;
    LocalGrid acc(b, "acc", kernel::kF32, tile.rows, tile.columns, 0);

    const std::vector<Index> rows = gemm_rows(w.gemm, w.origin.row, tile.rows);
    const int loads = w.gemm.b_along_k() ? tile.columns : vecs;
    const std::vector<Column> columns = gemm_columns(w.gemm, w.origin.column_tile * loads, loads);

    RP_TRY(w.gemm.k_loop([&](const KStep& step) -> Status {
      RP_ASSIGN(const std::vector<Values> ys, load_b_step(w, columns, step));
      RP_ASSIGN(const std::vector<Values> xs, load_a_rows(w.gemm, rows, step));
      for (int r = 0; r < tile.rows; ++r) {
        for (int c = 0; c < tile.columns; ++c) {
          Value sum;  // of the step, so that the accumulator is rounded once in each
          for (size_t k = 0; k < ys.size(); ++k) {
            const Val x = xs[static_cast<size_t>(r)][k], y = ys[k][static_cast<size_t>(c)];
            sum = k == 0 ? Value(b.mul(x, y)) : multiply_add(b, x, y, sum, tile.fma);
          }
          acc.store(r, c, acc.load(r, c) + sum);
        }
      }
      return {};
    }));

    for (int v = 0; v < vecs; ++v) {
      const Value vec = w.origin.column_tile * vecs + v;
      RP_TRY(w.result.guard_columns(vec, [&] {
        return store_rows(w.result, w.origin.row, tile.rows, vec,
                          [&](int r) { return acc.load_vector(r, 4 * v); });
      }));
    }
    return {};
  }
};

}  // namespace

const Schedule& register_tile_schedule() {
  static const RegisterSchedule schedule;
  return schedule;
}

}  // namespace reprise::shaders
