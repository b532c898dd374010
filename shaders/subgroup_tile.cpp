// Tiles that a subgroup of 8 lanes computes without memory between its lanes, for CPU-type devices,
// where a register holds one value of 8 lanes, every load is a gather of 7 to 120 multiply-adds,
// and a shuffle with a constant lane costs next to nothing. Each lane has rows or columns of its
// own; what all lanes share of the other operand is loaded once by the subgroup and broadcast.
//
// The order of the multiply-adds decides whether accumulators stay in registers: for one shared row
// (or column) after another, all positions at once. The other way round everything is spilled.
#include <algorithm>
#include <cmath>

#include "shaders/contraction.h"

namespace reprise::shaders {

namespace {

constexpr int kLanes = kCpuLanes;
constexpr int kChunk = 16;  // rows that one loop finishes; longer arrays compile slowly

/// What a unit does for 4 values of k: loads of A as often as a row needs them, of B in vectors of
/// four, multiply-adds, and broadcasts of what its lanes share; what else a
/// step costs, and a result that is stored.
struct StepCost {
  double a_loads, b_loads, products, shared, step, result;
};

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

Tile subgroup_tile(int rows, int columns, int own) {
  Tile t;
  t.rows = rows;
  t.columns = columns;
  t.own = own;
  t.unit = Unit::Subgroup;
  t.workgroup = t.subgroup_size = kLanes;
  return t;
}

/// Element `i` of vector `v`.
Val at(const std::vector<Values>& values, int v, int i) {
  return values[static_cast<size_t>(v)][static_cast<size_t>(i)];
}

/// Adds the products of a step to acc(shared, own), for one shared row (or column) after another.
/// `own` and `shared` give the operands at a k of the step.
using Operand = std::function<Val(int index, int k)>;
void add_products(kernel::Builder& b, LocalGrid& acc, int depth, const Operand& own,
                  const Operand& shared) {
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

/// Each lane has columns of its own and the subgroup shares rows.
class OwnColumns final : public Schedule {
 public:
  const char* name() const override { return "subgroup tile, columns by lane,"; }

  std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& device) const override {
    std::vector<Tile> out;
    if (!has_cpu_subgroups(device)) return out;
    for (int own : {8, 4}) {
      for (int rows : {64, 48, 32, 16, 8, 4, 2, 1}) {
        if (rows > 1 && rows >= 2 * size.m) continue;
        Tile t = subgroup_tile(rows, own * kLanes, own);
        const StepCost step{
            std::ceil(rows / double{kLanes}), 1.0 * own, 4.0 * rows * own, 1.0 * rows, 5, 20};
        t.cost = cost_of(size, device, t, step);
        out.push_back(t);
      }
    }
    return out;
  }

  Status write(const TileWork& w) const override {
    kernel::Builder& b = w.gemm.builder();
    const Tile& tile = w.tile;
    const bool along_k = w.gemm.b_along_k();
    const int vecs = tile.own / 4;
    const Value lane = lane_of(b);
    const Value first_vec = w.origin.column_tile * (tile.columns / 4) + lane * vecs;
    LocalGrid acc(b, "acc", kernel::kF32, tile.rows, tile.own, 0);

    std::vector<Index> rows;  // one of each lane's
    const Value own_row = min(lane, std::min(tile.rows, kLanes) - 1);
    for (int r = 0; r < tile.rows; r += kLanes)
      rows.push_back(w.gemm.row(w.origin.row + r + own_row));
    std::vector<Column> columns;
    const Value first_column =
        along_k ? w.origin.column_tile * tile.columns + lane * tile.own : first_vec;
    for (int c = 0; c < (along_k ? tile.own : vecs); ++c)
      columns.push_back(w.gemm.column(first_column + c));

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
        return along_k ? at(ys, c, k) : at(ys, k * vecs + c / 4, c % 4);
      };
      const auto shared = [&](int r, int k) {
        return broadcast(b, at(xs, r / kLanes, k), r % kLanes);
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

/// Each lane has rows of its own and the subgroup shares columns: for results of few columns.
class OwnRows final : public Schedule {
 public:
  const char* name() const override { return "subgroup tile, rows by lane,"; }

  std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& device) const override {
    std::vector<Tile> out;
    if (!has_cpu_subgroups(device) || size.m < kLanes) return out;
    for (int columns : {32, 16, 8}) {
      for (int own = 8; own >= 1; --own) {
        const StepCost step{1.0 * own, columns / 8.0, 4.0 * own * columns, 1.0 * columns, 30, 12};
        out.push_back(subgroup_tile(own * kLanes, columns, own));
        out.back().cost = cost_of(size, device, out.back(), step);
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
    const Value first_row = w.origin.row + lane * tile.own;
    LocalGrid acc(b, "acc", kernel::kF32, tile.columns, tile.own, 0);

    std::vector<Index> rows;
    for (int r = 0; r < tile.own; ++r) rows.push_back(w.gemm.row(first_row + r));
    std::vector<Column> columns;  // one of each lane's
    if (along_k) {
      for (int c = 0; c < tile.columns; c += kLanes)
        columns.push_back(w.gemm.column(w.origin.column_tile * tile.columns + c + lane));
    } else {
      columns.push_back(w.gemm.column(w.origin.column_tile * vecs + lane % vecs));
    }

    RP_TRY(w.gemm.k_loop([&](const KStep& step) -> Status {
      RP_ASSIGN(const std::vector<Values> ys, load_b_lanes(w, columns, step));
      RP_ASSIGN(const std::vector<Values> xs, load_a_rows(w.gemm, rows, step));
      const auto own = [&](int r, int k) { return at(xs, r, k); };
      const auto shared = [&](int c, int k) {
        const int number = along_k ? c : k * vecs + c / 4;
        return broadcast(b, at(ys, number / kLanes, along_k ? k : c % 4), number % kLanes);
      };
      add_products(b, acc, step.depth(), own, shared);
      return {};
    }));

    for (int v = 0; v < vecs; ++v) {
      const Value vec = w.origin.column_tile * vecs + v;
      RP_TRY(w.result.guard_columns(vec, [&] {
        const Value end = min(w.result.row_count() - first_row, tile.own);
        return store_chunk(w.result, first_row, vec, end, tile.own, [&](int r) {
          const auto part = [&](int c) { return acc.load(4 * v + c, r); };
          return b.compose({part(0), part(1), part(2), part(3)});
        });
      }));
    }
    return {};
  }

 private:
  /// Vectors of B, lane by lane: along columns, number kLanes * i + lane holds the k-th value of
  /// the step where k = number / vecs, and vector number % vecs.
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
    for (int first = 0; first < step.depth() * vecs; first += kLanes) {
      const Value k = min((lane_of(b) + first) / vecs, step.depth() - 1);
      RP_ASSIGN(Values y, w.gemm.load_b(columns[0], step, k));
      out.push_back(std::move(y));
    }
    return out;
  }
};

}  // namespace

const Schedule& subgroup_columns_schedule() {
  static const OwnColumns schedule;
  return schedule;
}

const Schedule& subgroup_rows_schedule() {
  static const OwnRows schedule;
  return schedule;
}

}  // namespace reprise::shaders
