// Kernel template: GEMM of few rows whose B is a weight of 4-bit integers with a scale for each
// block of K.
//
// The time goes to reading the weight and to unpacking its integers. An invocation computes all
// rows of four columns. In a step it loads 16 or 32 values of k of its columns, eight of them in 16
// bytes, and adds the products of the rows with the integers, less their zero points; the scale is
// applied to the sum of the step. On CPU-type devices with subgroups of 8, the subgroup loads the
// elements of A for the step once, four in each lane, and broadcasts them.
#include <algorithm>
#include <cmath>

#include "codegen/target/device_costs.h"
#include "shaders/contraction.h"

namespace reprise::shaders {

namespace {

constexpr double kMaxBlockRows = 8;

class GemvBlocks final : public Schedule {
 public:
  const char* name() const override { return "gemv of 4-bit blocks,"; }

  std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& device) const override {
    std::vector<Tile> out;
    // On GPUs few rows need a split of K, which gemv has.
    if (size.b_block == 0 || !device.cpu_type() || size.m > kMaxBlockRows) return out;
    const bool subgroups = has_cpu_subgroups(device);
    for (int rows : {8, 4, 2, 1}) {
      if (rows > 1 && rows >= 2 * size.m) continue;
      Tile t;
      t.rows = rows;
      t.columns = subgroups ? 4 * kCpuLanes : 4;
      t.per_invocation = 4;
      t.unit = subgroups ? Unit::Subgroup : Unit::Invocation;
      t.workgroup = subgroups ? kCpuLanes : 16;
      t.subgroup_size = subgroups ? kCpuLanes : 0;
      t.step = static_cast<int>(std::min(size.b_block, 32.0));
      t.cost = cost_of(size, device, t);
      out.push_back(t);
    }
    return out;
  }

  Status write(const TileWork& w) const override {
    kernel::Builder& b = w.gemm.builder();
    const Tile& tile = w.tile;
    const bool shared = tile.unit == Unit::Subgroup;
    const Value lane = shared ? lane_of(b) : b.i32(0);
    const Value vec = w.origin.column_tile * (tile.columns / 4) + lane;
    LocalGrid acc(b, "acc", kernel::vec(kernel::kF32, 4), tile.rows, 1, 0);
    const std::vector<Index> rows = gemm_rows(w.gemm, w.origin.row, tile.rows);
    const Column column = w.gemm.column(vec);
    RP_TRY(w.gemm.k_blocks([] { return Status(); },
                           [&](Value i) { return add_step(w, rows, column, i, lane, acc); }));
    return w.result.guard_columns(vec, [&] {
      return store_rows(w.result, w.origin.row, tile.rows, vec, [&](int r) { return acc.load(r); });
    });
  }

 private:
  static double cost_of(const GemmSize& size, const TargetFacts& device, const Tile& t) {
    const CpuCosts& price = cpu_costs(device);
    const bool shared = t.unit == Unit::Subgroup;
    const double quads = t.step / 4.0;
    const double a_loads = t.rows * (shared ? price.vector_load : quads * price.gather);
    const double b_loads = (quads / 2 + 1) * (shared ? price.vector_load : price.gather);
    // The prices of other schedules do not include unpacking, either.
    const double work = 4.0 * t.step * t.rows + price.broadcast * t.step * t.rows;
    const double units = tiles_of(size, t.rows, t.columns) / (shared ? 1 : kCpuLanes);
    const double cost = units * size.k / t.step * (a_loads + b_loads + work);
    const double compile_ms = price.compile.multiply_add * 4.0 * t.step * (t.rows + 1) +
                              price.compile.square * std::pow(4.0 * t.rows, 2);
    return with_compile_time(cost, compile_ms, price.compile);
  }

  static Status add_step(const TileWork& w, const std::vector<Index>& rows, const Column& column,
                         Value step, Value lane, LocalGrid& acc) {
    kernel::Builder& b = w.gemm.builder();
    const int quads = w.tile.step / 4;
    RP_ASSIGN(const BlockScale block, w.gemm.load_b_scale(column, step, w.tile.step));
    std::vector<Values> loaded;  // four k of a row in each lane, or all k of a row
    for (const Index& row : rows) {
      RP_ASSIGN(Values x, load_row(w, row, step * quads, lane));
      loaded.push_back(std::move(x));
    }
    std::vector<Value> sums(rows.size()), totals(rows.size());
    for (int octet = 0; octet < quads / 2; ++octet) {
      RP_ASSIGN(const Values ys,
                w.gemm.load_b_octet(column, step * (quads / 2) + octet, block.zero));
      for (size_t r = 0; r < rows.size(); ++r) {
        for (int i = 0; i < 8; ++i) {
          const int k = octet * 8 + i;
          const Val x = w.tile.unit == Unit::Subgroup
                            ? broadcast(b, loaded[r][static_cast<size_t>(k % 4)], k / 4)
                            : loaded[r][static_cast<size_t>(k)];
          if (block.minimum) totals[r] = k == 0 ? Value{b, x} : totals[r] + Value{b, x};
          const Val four = b.splat(x, 4);
          const Val y = ys[static_cast<size_t>(i)];
          sums[r] = k == 0 ? b.mul(four, y) : multiply_add(b, four, y, sums[r], w.tile.fma);
        }
      }
    }
    for (size_t r = 0; r < rows.size(); ++r) {
      const int at = static_cast<int>(r);
      Value sum = multiply_add(b, sums[r], block.scale, acc.load(at), w.tile.fma);
      if (block.minimum)
        sum = multiply_add(b, b.splat(totals[r], 4), block.minimum, sum, w.tile.fma);
      acc.store(at, 0, sum);
    }
    return {};
  }

  /// A row's elements of a step: those of the lane's quad, or of all quads.
  static Result<Values> load_row(const TileWork& w, const Index& row, Value first, Value lane) {
    const int quads = w.tile.step / 4;
    const bool whole = w.gemm.whole_k_blocks();
    if (w.tile.unit == Unit::Subgroup) return w.gemm.load_a_block(row, first + lane % quads, whole);
    Values out;
    for (int q = 0; q < quads; ++q) {
      RP_ASSIGN(const Values four, w.gemm.load_a_block(row, first + q, whole));
      out.insert(out.end(), four.begin(), four.end());
    }
    return out;
  }
};

}  // namespace

const Schedule& gemv_blocks_schedule() {
  static const GemvBlocks schedule;
  return schedule;
}

}  // namespace reprise::shaders
