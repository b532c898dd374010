// Kernel template: GEMM tile of a subgroup (subgroup_tile.h) in which each lane has its own rows.
//
// A subgroup of 8 computes rows x columns of C, for a C of few columns. A lane has `own` = rows / 8
// rows (1 to 8) of all columns. For each step of k it loads its rows of A and a part of the step of
// B; the rest of B reaches it by shuffles. Accumulators: own * columns private variables per lane.
// For CPU-type devices; no shared memory.
#include <algorithm>
#include <cmath>

#include "codegen/target/device_costs.h"
#include "shaders/subgroup_tile.h"

namespace reprise::shaders {

namespace {

class OwnRows final : public Schedule {
 public:
  const char* name() const override { return "subgroup tile, rows by lane,"; }

  std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& device) const override {
    std::vector<Tile> out;
    if (!has_cpu_subgroups(device) || size.m < kCpuLanes) return out;
    const SubgroupTileCosts& price = cpu_costs(device).subgroup_tile;
    for (int columns : {32, 16, 8}) {
      for (int rows = 8; rows >= 1; --rows) {
        const StepCost step{1.0 * rows,    columns / 8.0,   4.0 * rows * columns,
                            1.0 * columns, price.rows_step, price.rows_result};
        out.push_back(subgroup_tile(size, device, {rows * kCpuLanes, columns, rows, step}));
      }
    }
    return out;
  }

  Status write(const TileWork& w) const override {
    kernel::Builder& b = w.gemm.builder();
    const Tile& tile = w.tile;
    const bool along_k = w.gemm.b_along_k();
    const int vecs = tile.columns / 4;
    const Value lane = lane_of(b);
    const Value first_row = w.origin.row + lane * tile.per_invocation;
    LocalGrid acc(b, "acc", kernel::kF32, tile.columns, tile.per_invocation, 0);

    const std::vector<Index> rows = gemm_rows(w.gemm, first_row, tile.per_invocation);
    std::vector<Column> columns;  // the columns that this lane loads
    if (along_k) {
      for (int c = 0; c < tile.columns; c += kCpuLanes)
        columns.push_back(w.gemm.column(w.origin.column_tile * tile.columns + c + lane));
    } else {
      columns.push_back(w.gemm.column(w.origin.column_tile * vecs + lane % vecs));
    }

    RP_TRY(w.gemm.k_loop([&](const KStep& step) -> Status {
      RP_ASSIGN(const std::vector<Values> ys, load_b_lanes(w, columns, step));
      RP_ASSIGN(const std::vector<Values> xs, load_a_rows(w.gemm, rows, step));
      const auto own = [&](int r, int k) { return vector_element(xs, r, k); };
      const auto shared = [&](int c, int k) {
        const int number = along_k ? c : k * vecs + c / 4;
        return broadcast(b, vector_element(ys, number / kCpuLanes, along_k ? k : c % 4),
                         number % kCpuLanes);
      };
      add_products(b, acc, step.depth(), own, shared);
      return {};
    }));

    for (int v = 0; v < vecs; ++v) {
      const Value vec = w.origin.column_tile * vecs + v;
      RP_TRY(w.result.guard_columns(vec, [&] {
        const Value end = min(w.result.row_count() - first_row, tile.per_invocation);
        return store_chunk(w.result, first_row, vec, end, tile.per_invocation, [&](int r) {
          const auto part = [&](int c) { return acc.load(4 * v + c, r); };
          return b.compose({part(0), part(1), part(2), part(3)});
        });
      }));
    }
    return {};
  }

 private:
  /// The part of a step of B that a lane loads. If b_along_k(), its columns at every k. Otherwise
  /// the step's vectors are numbered k * vecs + vector of columns, and element i of the result is
  /// vector kCpuLanes * i + lane.
  static Result<std::vector<Values>> load_b_lanes(const TileWork& w,
                                                  const std::vector<Column>& columns,
                                                  const KStep& step) {
    kernel::Builder& b = w.gemm.builder();
    std::vector<Values> out;
    if (w.gemm.b_along_k()) {
      for (const Column& column : columns) {
        RP_ASSIGN(Values y, w.gemm.load_b(column, step, b.i32(0)));
        out.push_back(std::move(y));
      }
      return out;
    }
    const int vecs = w.tile.columns / 4;
    for (int first = 0; first < step.depth() * vecs; first += kCpuLanes) {
      const Value k = min((lane_of(b) + first) / vecs, step.depth() - 1);
      RP_ASSIGN(Values y, w.gemm.load_b(columns[0], step, k));
      out.push_back(std::move(y));
    }
    return out;
  }
};

}  // namespace

const Schedule& subgroup_rows_schedule() {
  static const OwnRows schedule;
  return schedule;
}

}  // namespace reprise::shaders
