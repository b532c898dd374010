// Kernel template: GEMM tile of a subgroup (subgroup_tile.h) in which each lane has its own
// columns.
//
// A subgroup of 8 computes rows x columns of C. A lane has `own` = columns / 8 columns (4 or 8) of
// all rows. For each step of k it loads its columns of B and, for every 8 rows, one row of A; the
// rows of the other lanes reach it by shuffles. Accumulators: rows * own private variables per
// lane. For CPU-type devices; no shared memory.
#include <algorithm>
#include <cmath>

#include "codegen/target/device_costs.h"
#include "shaders/subgroup_tile.h"

namespace reprise::shaders {

namespace {

constexpr int kChunk = 16;  // rows that one loop stores; longer local arrays compile slowly

class OwnColumns final : public Schedule {
 public:
  const char* name() const override { return "subgroup tile, columns by lane,"; }

  std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& device) const override {
    std::vector<Tile> out;
    if (!has_cpu_subgroups(device)) return out;
    const SubgroupTileCosts& price = cpu_costs(device).subgroup_tile;
    for (int columns : {8, 4}) {
      for (int rows : {64, 48, 32, 16, 8, 4, 2, 1}) {
        if (rows > 1 && rows >= 2 * size.m) continue;
        const double loads = std::ceil(rows / double{kCpuLanes});
        const StepCost step{loads,      1.0 * columns,      4.0 * rows * columns,
                            1.0 * rows, price.columns_step, price.columns_result};
        out.push_back(subgroup_tile(size, device, {rows, columns * kCpuLanes, columns, step}));
      }
    }
    return out;
  }

  Status write(const TileWork& w) const override {
    kernel::Builder& b = w.gemm.builder();
    const Tile& tile = w.tile;
    const bool along_k = w.gemm.b_along_k();
    const int vecs = tile.per_invocation / 4;
    const Value lane = lane_of(b);
    const Value first_vec = w.origin.column_tile * (tile.columns / 4) + lane * vecs;
    LocalGrid acc(b, "acc", kernel::kF32, tile.rows, tile.per_invocation, 0);

    std::vector<Index> rows;  // the rows that this lane loads: one in 8
    const Value own_row = min(lane, std::min(tile.rows, kCpuLanes) - 1);
    for (int r = 0; r < tile.rows; r += kCpuLanes)
      rows.push_back(w.gemm.row(w.origin.row + r + own_row));
    const Value first_column =
        along_k ? w.origin.column_tile * tile.columns + lane * tile.per_invocation : first_vec;
    const std::vector<Column> columns =
        gemm_columns(w.gemm, first_column, along_k ? tile.per_invocation : vecs);

    RP_TRY(w.gemm.k_loop([&](const KStep& step) -> Status {
      RP_ASSIGN(const std::vector<Values> xs, load_a_rows(w.gemm, rows, step));
      std::vector<Values> ys;
      for (int k = 0; k < (along_k ? 1 : step.depth()); ++k) {
        for (const Column& column : columns) {
          RP_ASSIGN(Values y, w.gemm.load_b(column, step, b.i32(k)));
          ys.push_back(std::move(y));
        }
      }
      const auto own = [&](int c, int k) {
        return along_k ? vector_element(ys, c, k) : vector_element(ys, k * vecs + c / 4, c % 4);
      };
      const auto shared = [&](int r, int k) {
        return broadcast(b, vector_element(xs, r / kCpuLanes, k), r % kCpuLanes);
      };
      add_products(b, acc, step.depth(), own, shared);
      return {};
    }));

    for (int v = 0; v < vecs; ++v) {
      const Value vec = first_vec + v;
      RP_TRY(w.result.guard_columns(vec, [&] { return store_columns(w, acc, vec, v); }));
    }
    return {};
  }

 private:
  static Status store_columns(const TileWork& w, LocalGrid& acc, Value vec, int v) {
    const int rows = w.tile.rows;
    if (rows % kChunk != 0) {
      return store_rows(w.result, w.origin.row, rows, vec,
                        [&](int r) { return acc.load_vector(r, 4 * v); });
    }
    for (int r = 0; r < rows; r += kChunk) {
      const Value first = w.origin.row + r;
      const Value end = min(w.result.row_count() - first, kChunk);
      RP_TRY(store_chunk(w.result, first, vec, end, kChunk,
                         [&](int i) { return acc.load_vector(r + i, 4 * v); }));
    }
    return {};
  }
};

}  // namespace

const Schedule& subgroup_columns_schedule() {
  static const OwnColumns schedule;
  return schedule;
}

}  // namespace reprise::shaders
