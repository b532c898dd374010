// Kernel template: GEMM with at most 4 rows (GEMV), for GPUs.
//
// Each element of B is read once and hardly reused, so speed depends on the number of loads in
// flight. A workgroup computes all rows of a few columns (`columns`) and splits K over its
// invocations (split-K): an invocation accumulates one vector of four columns for every row, over
// one of `slices` = workgroup / (columns / 4) slices of K. A step is four values of k per slice. At
// the end the slices are added as a tree in shared memory.
//
// Neighbouring invocations read neighbouring addresses: columns of one k or, if B lies along k,
// values of k of one column.
//
// Shared memory: 4 * workgroup * rows floats, at most 8 KB.
#include <algorithm>
#include <array>
#include <cmath>

#include "codegen/target/device_costs.h"
#include "shaders/contraction.h"

namespace reprise::shaders {

using kernel::Ty;

namespace {

constexpr double kMaxRows = 4;

/// tile_n of a workgroup, and its number of invocations.
struct GemvTile {
  int columns;
  uint32_t workgroup;

  int vecs() const { return columns / 4; }
  int slices() const { return static_cast<int>(workgroup) / vecs(); }
};

constexpr GemvTile kGemvShapes[] = {{8, 64}, {16, 64}, {32, 64}, {16, 128}, {32, 128}, {64, 128}};

double cost_of(const GemmSize& size, const GemvTile& s, int rows) {
  // A step is four values of k for four columns. The tree of sums follows at the end.
  const double work = kGpuCosts.load * (rows * size.a_loads + 4 * size.b_loads) + 16.0 * rows;
  const double steps = std::ceil(size.k / (4 * s.slices()));
  const double ends = 1 + kGpuCosts.barrier * std::log2(s.slices()) / work;
  const double workgroups = tiles_of(size, rows, s.columns);
  return gpu_time(workgroups, s.workgroup, steps + ends, work);
}

/// An invocation's slice of K, and the number of its vector of columns within the workgroup.
struct Place {
  Value slice, vec;
};

Place place_of(const TileWork& w) {
  const Value local = local_index(w.gemm.builder());
  const int vecs = w.tile.columns / 4;
  if (w.gemm.b_along_k()) return {local % w.tile.slices, local / w.tile.slices};
  return {local / vecs, local % vecs};
}

/// Adds the products of the four k from 4 * quad.
Status add_quad(const TileWork& w, const std::vector<Index>& rows,
                const std::vector<Column>& columns, Value quad, LocalGrid& acc) {
  kernel::Builder& b = w.gemm.builder();
  const bool along_k = w.gemm.b_along_k(), whole = w.gemm.whole_k_blocks();
  std::vector<Values> xs, ys;
  for (const Index& row : rows) {
    RP_ASSIGN(Values x, w.gemm.load_a_block(row, quad, whole));
    xs.push_back(std::move(x));
  }
  for (size_t i = 0; i < 4; ++i) {
    const Value k = quad * 4 + static_cast<int64_t>(i);
    Result<Values> y = along_k ? w.gemm.load_b_block(columns[i], quad, whole)  //
                               : w.gemm.load_b_block(columns[0], k, whole);
    RP_ASSIGN(Values four, std::move(y));
    ys.push_back(std::move(four));
  }
  for (size_t k = 0; k < 4; ++k) {
    const auto at = [&](size_t c) { return along_k ? ys[c][k] : ys[k][c]; };
    const Value y = b.compose({at(0), at(1), at(2), at(3)});
    for (int r = 0; r < acc.rows(); ++r)
      acc.store(r, 0, b.fma(b.splat(xs[static_cast<size_t>(r)][k], 4), y, acc.load(r, 0)));
  }
  return {};
}

/// Adds the sums of all slices as a tree in the shared array; the total replaces the sum of slice
/// 0. at(row, slice) is the position of an invocation's four sums.
void add_slices(const TileWork& w, int shared, Value slice,
                const std::function<Value(int row, Value slice)>& at) {
  kernel::Builder& b = w.gemm.builder();
  b.barrier();
  for (int half = w.tile.slices / 2; half > 0; half /= 2) {
    b.if_then(slice < half, [&] {
      for (int r = 0; r < w.tile.rows; ++r) {
        const Value own = b.shared_load(shared, at(r, slice), 4);
        const Value other = b.shared_load(shared, at(r, slice + half), 4);
        b.shared_store(shared, at(r, slice), own + other);
      }
    });
    b.barrier();
  }
}

class Gemv final : public Schedule {
 public:
  const char* name() const override { return "gemv"; }

  std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& device) const override {
    std::vector<Tile> out;
    if (device.cpu_type() || size.m > kMaxRows) return out;
    for (const GemvTile& s : kGemvShapes) {
      Tile t;
      t.rows = static_cast<int>(std::ceil(std::max(size.m, 1.0)));
      t.columns = s.columns;
      t.unit = Unit::Workgroup;
      t.workgroup = s.workgroup;
      t.slices = s.slices();
      t.step = 4 * t.slices;
      t.fma = true;
      t.cost = cost_of(size, s, t.rows);
      out.push_back(t);
    }
    return out;
  }

  Status write(const TileWork& w) const override {
    kernel::Builder& b = w.gemm.builder();
    const Tile& tile = w.tile;
    const int vecs = tile.columns / 4;
    const Place own = place_of(w);
    const Value vec = w.origin.column_tile * vecs + own.vec;

    LocalGrid acc(b, "acc", kernel::vec(kernel::kF32, 4), tile.rows, 1, 0);
    const std::vector<Index> rows = gemm_rows(w.gemm, w.origin.row, tile.rows);
    const std::vector<Column> columns =
        w.gemm.b_along_k() ? gemm_columns(w.gemm, vec * 4, 4) : gemm_columns(w.gemm, vec, 1);
    RP_TRY(w.gemm.k_blocks([] { return Status(); },
                           [&](Value i) {
                             const Value block = w.gemm.first_k_block() + i;
                             return add_quad(w, rows, columns, block * tile.slices + own.slice,
                                             acc);
                           }));

    const int sums =
        b.shared("sums", Ty::F32, tile.workgroup * 4 * static_cast<uint32_t>(tile.rows));
    const auto at = [&](int row, Value slice) {
      return (slice * vecs + own.vec + row * static_cast<int64_t>(tile.workgroup)) * 4;
    };
    for (int r = 0; r < tile.rows; ++r) b.shared_store(sums, at(r, own.slice), acc.load(r, 0));
    add_slices(w, sums, own.slice, at);

    Status status;
    b.if_then(b.eq(own.slice, b.i32(0)), [&] {
      status = w.result.guard_columns(vec, [&] {
        return store_rows(w.result, w.origin.row, tile.rows, vec,
                          [&](int r) { return b.shared_load(sums, at(r, own.slice), 4); });
      });
    });
    return status;
  }
};

}  // namespace

const Schedule& gemv_schedule() {
  static const Gemv schedule;
  return schedule;
}

}  // namespace reprise::shaders
