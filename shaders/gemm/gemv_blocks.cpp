// Kernel template: GEMM of few rows whose B is a weight of 4-bit or 8-bit integers with a scale for
// each block of K.
//
// The time goes to reading the weight and to unpacking its integers. An invocation computes all
// rows of four or eight columns. In a step it loads 16 or 32 values of k of its columns (eight
// 4-bit integers of four columns in 16 bytes), and adds the products of the rows with the integers,
// less their zero points; the scale is applied to the sum of the step. On CPU-type devices with
// subgroups of 8, the subgroup loads the elements of A for the step once, four in each lane, and
// broadcasts them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "codegen/target/device_costs.h"
#include "shaders/contraction.h"

namespace reprise::shaders {

namespace {

constexpr double kMaxBlockRows = 8;

class GemvBlocks final : public Schedule {
 public:
  const char* name() const override { return "gemv of blocks,"; }

  std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& device) const override {
    std::vector<Tile> out;
    // On GPUs few rows need a split of K, which gemv has.
    if (size.b_block == 0 || !device.cpu_type() || size.m > kMaxBlockRows) return out;
    const bool subgroups = has_cpu_subgroups(device);
    for (int own : {8, 4}) {
      if (own > 4 && !subgroups) continue;
      for (int rows : {8, 4, 2, 1}) {
        if (rows > 1 && rows >= 2 * size.m) continue;
        Tile t;
        t.rows = rows;
        t.columns = subgroups ? own * kCpuLanes : own;
        t.per_invocation = own;
        t.unit = subgroups ? Unit::Subgroup : Unit::Invocation;
        t.workgroup = subgroups ? kCpuLanes : 16;
        t.subgroup_size = subgroups ? kCpuLanes : 0;
        // A step has one scale. Longer bodies of the loop over bytes fill the caches of
        // instructions.
        t.step = std::gcd(static_cast<int>(size.b_block), size.b_bits == 8 ? 16 : 32);
        t.cost = cost_of(size, device, t);
        out.push_back(t);
      }
    }
    return out;
  }

  Status write(const TileWork& w) const override {
    kernel::Builder& b = w.gemm.builder();
    const Tile& tile = w.tile;
    const bool shared = tile.unit == Unit::Subgroup;
    const int vecs = tile.per_invocation / 4;
    const Value lane = shared ? lane_of(b) : b.i32(0);
    const Value vec = w.origin.column_tile * (tile.columns / 4) + lane * vecs;
    LocalGrid acc(b, "acc", kernel::vec(kernel::kF32, 4), tile.rows, vecs, 0);
    const std::vector<Index> rows = gemm_rows(w.gemm, w.origin.row, tile.rows);
    const std::vector<Column> columns = gemm_columns(w.gemm, vec, vecs);
    RP_TRY(w.gemm.k_blocks([] { return Status(); },
                           [&](Value i) { return add_step(w, rows, columns, i, lane, acc); }));
    for (int v = 0; v < vecs; ++v) {
      RP_TRY(w.result.guard_columns(vec + v, [&] {
        return store_rows(w.result, w.origin.row, tile.rows, vec + v,
                          [&](int r) { return acc.load(r, v); });
      }));
    }
    return {};
  }

 private:
  static double cost_of(const GemmSize& size, const TargetFacts& device, const Tile& t) {
    const CpuCosts& price = cpu_costs(device);
    const bool shared = t.unit == Unit::Subgroup;
    const double quads = t.step / 4.0, vecs = t.per_invocation / 4.0;
    const double a_loads = t.rows * (shared ? price.vector_load : quads * price.gather);
    const double weights = size.b_bits == 8 ? t.step : vecs * quads / 2;
    const double b_loads = (weights + vecs) * (shared ? price.vector_load : price.gather);
    // The prices of other schedules do not include unpacking, either.
    const double work = (4.0 * vecs + price.broadcast) * t.step * t.rows;
    const double units = tiles_of(size, t.rows, t.columns) / (shared ? 1 : kCpuLanes);
    // Units are given to the cores one by one, so the last ones may be fewer.
    const double turns = shared ? std::ceil(units / price.cores) * price.cores : units;
    const double cost = turns * size.k / t.step * (a_loads + b_loads + work);
    const double sums = vecs * (t.rows + 1);
    const double compile_ms = price.compile.multiply_add * 4.0 * t.step * sums +
                              price.compile.square * std::pow(4.0 * vecs * t.rows, 2);
    return with_compile_time(cost, compile_ms, price.compile);
  }

  /// The elements of the rows at the values of k of a step.
  struct Rows {
    const TileWork& w;
    std::vector<Values> loaded;  // four k of a row in each lane, or all k of a row

    Val at(size_t row, int k) const {
      if (w.tile.unit == Unit::Subgroup)
        return broadcast(w.gemm.builder(), loaded[row][static_cast<size_t>(k % 4)], k / 4);
      return loaded[row][static_cast<size_t>(k)];
    }
  };

  static Status add_step(const TileWork& w, const std::vector<Index>& rows,
                         const std::vector<Column>& columns, Value step, Value lane,
                         LocalGrid& acc) {
    kernel::Builder& b = w.gemm.builder();
    Rows xs{w, {}};
    xs.loaded.reserve(rows.size());
    for (const Index& row : rows) {
      RP_ASSIGN(Values x, load_row(w, row, step * (w.tile.step / 4), lane));
      xs.loaded.push_back(std::move(x));
    }
    std::vector<BlockScale> blocks(columns.size());
    std::vector<Val> zeros;
    for (size_t v = 0; v < columns.size(); ++v) {
      RP_ASSIGN(blocks[v], w.gemm.load_b_scale(columns[v], step, w.tile.step));
      if (blocks[v].zero) zeros.push_back(blocks[v].zero);
    }
    std::vector<Value> totals;
    if (blocks[0].minimum) totals = totals_of(xs);
    RP_ASSIGN(const std::vector<Values> sums, sums_of(xs, columns, step, zeros));
    for (size_t v = 0; v < columns.size(); ++v) {
      for (size_t r = 0; r < rows.size(); ++r) {
        const int at = static_cast<int>(r), column = static_cast<int>(v);
        Value sum = multiply_add(b, sums[v][r], blocks[v].scale, acc.load(at, column), w.tile.fma);
        if (blocks[v].minimum)
          sum = multiply_add(b, b.splat(totals[r], 4), blocks[v].minimum, sum, w.tile.fma);
        acc.store(at, column, sum);
      }
    }
    return {};
  }

  /// The products of the rows with the integers of each vector of columns, added up over a step.
  static Result<std::vector<Values>> sums_of(const Rows& xs, std::span<const Column> columns,
                                             Value step, std::span<const Val> zeros) {
    const TileWork& w = xs.w;
    kernel::Builder& b = w.gemm.builder();
    const int octets = w.tile.step / 8;
    std::vector<Values> sums(columns.size(), Values(xs.loaded.size()));
    for (int k = 0; k < w.tile.step; k += 8) {
      RP_ASSIGN(const std::vector<Values> ys,
                w.gemm.load_b_octet(columns, step * octets + k / 8, zeros));
      for (size_t r = 0; r < xs.loaded.size(); ++r) {
        for (int i = 0; i < 8; ++i) {
          const Val four = b.splat(xs.at(r, k + i), 4);
          for (size_t v = 0; v < columns.size(); ++v) {
            const Val y = ys[v][static_cast<size_t>(i)];
            sums[v][r] =
                k + i == 0 ? b.mul(four, y) : Val(multiply_add(b, four, y, sums[v][r], w.tile.fma));
          }
        }
      }
    }
    return sums;
  }

  /// The sum of each row over a step.
  static std::vector<Value> totals_of(const Rows& xs) {
    kernel::Builder& b = xs.w.gemm.builder();
    std::vector<Value> out;
    out.reserve(xs.loaded.size());
    for (const Values& row : xs.loaded) {
      Value own{b, row[0]};
      for (size_t i = 1; i < row.size(); ++i) own = own + Value{b, row[i]};
      Value total = own;
      if (xs.w.tile.unit == Unit::Subgroup) {
        total = broadcast(b, own, 0);
        for (int quad = 1; quad < xs.w.tile.step / 4; ++quad)
          total = total + broadcast(b, own, quad);
      }
      out.push_back(total);
    }
    return out;
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
