// Tiles that a subgroup of 8 lanes computes without memory between its lanes, for CPU-type devices,
// where a register holds one value of 8 lanes, every load is a gather of 7 to 120 multiply-adds,
// and a shuffle with a constant lane costs next to nothing. Each lane has rows or columns of its
// own; what all lanes share of the other operand is loaded once by the subgroup and broadcast.
//
// The order of the multiply-adds decides whether accumulators stay in registers: for one shared row
// (or column) after another, all positions at once. The other way round everything is spilled.
#include <algorithm>
#include <array>
#include <cmath>

#include "shaders/contraction.h"
#include "shaders/device_costs.h"

namespace reprise::shaders {

using kernel::Val;

namespace {

constexpr int kLanes = kCpuLanes;
constexpr int kChunk = 16;  // rows that one loop finishes; longer arrays compile slowly

/// What a unit does for 4 positions: loads of the left operand as often as a row needs them, of the
/// right one in vectors of four, multiply-adds, and broadcasts of what its lanes share; what else a
/// step costs, and a result that is stored.
struct Work {
  double left, right, products, shared, step, result;
};

/// In multiply-adds of a register.
double cost_of(const GemmSize& size, const TargetFacts& device, const Tile& t, const Work& w) {
  const CpuCosts& price = cpu_costs(device);
  const double left = size.a_loads < 4 ? price.vector_load : price.scalar_load;
  const double loads = w.left * size.a_loads * left + w.right * price.vector_load;
  const double units = size.batch * std::ceil(size.m / t.rows) * std::ceil(size.n / t.columns);
  constexpr double kBroadcast = 0.5;
  double step = loads + w.products + kBroadcast * 4 * w.shared;
  step += price.step_overhead * w.step;
  const double result = price.step_overhead * w.result;
  const double results = w.products / 4;
  double cost = units * (size.k / 4 * step + results * result);
  if (units < kEnoughUnits) cost *= kEnoughUnits / units;
  // Compiling takes longer where pixels are found by dividing by dynamic dims or halves are
  // decoded. For small kernels a millisecond of it is worth 1500 runs.
  double compile_ms = results * (price.compile_product * size.unrolled + price.compile_result);
  if (size.dynamic) compile_ms *= 2.5;
  if (size.half) compile_ms *= 2;
  compile_ms += price.compile_square * results * results;
  return cost * (1 + price.compile_second * compile_ms / 1000) + 1500 * compile_ms;
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

using Values = Gemm::Values;

/// Element `i` of vector `v`.
Val at(const std::vector<Values>& values, int v, int i) {
  return values[static_cast<size_t>(v)][static_cast<size_t>(i)];
}

/// own x shared accumulators of an invocation.
class Accumulators {
 public:
  Accumulators(kernel::Builder& b, int own, int shared) : b_(b), own_(own), shared_(shared) {
    for (int i = 0; i < own_ * shared_; ++i) {
      acc_.push_back(b_.local("acc" + std::to_string(i), kernel::kF32));
      b_.local_store(acc_.back(), b_.f32(0));
    }
  }

  using At = std::function<Val(int index, int position)>;
  void multiply(int depth, const At& own, const At& shared) {
    std::vector<Val> ys(static_cast<size_t>(depth));
    for (int s = 0; s < shared_; ++s) {
      for (int k = 0; k < depth; ++k) ys[static_cast<size_t>(k)] = shared(s, k);
      for (int o = 0; o < own_; ++o) {
        Val total = b_.local_load(local(o, s));
        for (int k = 0; k < depth; ++k)
          total = b_.add(total, b_.mul(ys[static_cast<size_t>(k)], own(o, k)));
        b_.local_store(local(o, s), total);
      }
    }
  }
  Val result(int own, int shared) { return b_.local_load(local(own, shared)); }

 private:
  int local(int own, int shared) const {
    const int index = shared * own_ + own;
    return acc_[static_cast<size_t>(index)];
  }

  kernel::Builder& b_;
  int own_, shared_;
  std::vector<int> acc_;
};

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
        const Work work{
            std::ceil(rows / double{kLanes}), 1.0 * own, 4.0 * rows * own, 1.0 * rows, 5, 20};
        t.cost = cost_of(size, device, t, work);
        out.push_back(t);
      }
    }
    return out;
  }

  Status write(Gemm& gemm, const Tile& tile, Val row, Val column) const override {
    return write_tile(
        Writer{gemm, tile, gemm.builder(), Accumulators(gemm.builder(), tile.own, tile.rows)}, row,
        column);
  }

 private:
  struct Writer {
    Gemm& gemm;
    const Tile& tile;
    kernel::Builder& b;
    Accumulators acc;
    std::vector<int> rows = {}, columns = {};

    int vecs() const { return tile.own / 4; }
    Val first_vec(Val column) {
      return b.add(b.mul(column, b.i32(tile.columns / 4)), b.mul(lane_of(b), b.i32(vecs())));
    }

    Status accumulate(Val row, Val column) {
      const Val lane = b.min(lane_of(b), b.i32(std::min(tile.rows, kLanes) - 1));
      for (int r = 0; r < tile.rows; r += kLanes)
        rows.push_back(gemm.row(b.add(b.add(row, b.i32(r)), lane)));
      if (gemm.b_along_k()) {
        const Val first =
            b.add(b.mul(column, b.i32(tile.columns)), b.mul(lane_of(b), b.i32(tile.own)));
        for (int c = 0; c < tile.own; ++c) columns.push_back(gemm.column(b.add(first, b.i32(c))));
      } else {
        for (int v = 0; v < vecs(); ++v)
          columns.push_back(gemm.column(b.add(first_vec(column), b.i32(v))));
      }
      return gemm.k_loop([&](int depth) { return step(depth); });
    }

    Status step(int depth) {
      RP_ASSIGN(const std::vector<Values> lefts, load_a_rows(gemm, rows));
      std::vector<Values> rights;
      const bool along_k = gemm.b_along_k();
      for (int k = 0; k < (along_k ? 1 : depth); ++k) {
        for (int c : columns) {
          RP_ASSIGN(Values y, gemm.load_b(c, b.i32(k)));
          rights.push_back(std::move(y));
        }
      }
      acc.multiply(
          depth,
          [&](int o, int k) {
            return along_k ? at(rights, o, k) : at(rights, k * vecs() + o / 4, o % 4);
          },
          [&](int s, int k) { return broadcast(b, at(lefts, s / kLanes, k), s % kLanes); });
      return {};
    }

    Val four(int row, int vec) {
      const auto part = [&](int c) { return acc.result(4 * vec + c, row); };
      return b.compose(std::array{part(0), part(1), part(2), part(3)});
    }

    Status store(Val row, Val column) {
      for (int v = 0; v < vecs(); ++v) {
        const Val vec = b.add(first_vec(column), b.i32(v));
        RP_TRY(gemm.guard_columns(vec, [&] { return store_columns(row, vec, v); }));
      }
      return {};
    }

    Status store_columns(Val row, Val vec, int v) {
      if (tile.rows % kChunk != 0)
        return store_rows(gemm, row, tile.rows, vec, [&](int r) { return four(r, v); });
      for (int r = 0; r < tile.rows; r += kChunk) {
        const Val first = b.add(row, b.i32(r));
        const Val end = b.min(b.sub(gemm.row_count(), first), b.i32(kChunk));
        RP_TRY(store_chunk(gemm, first, vec, end, kChunk, [&](int i) { return four(r + i, v); }));
      }
      return {};
    }
  };
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
        Tile t = subgroup_tile(own * kLanes, columns, own);
        const Work work{1.0 * own, columns / 8.0, 4.0 * own * columns, 1.0 * columns, 30, 12};
        t.cost = cost_of(size, device, t, work);
        out.push_back(t);
      }
    }
    return out;
  }

  Status write(Gemm& gemm, const Tile& tile, Val row, Val column) const override {
    return write_tile(
        Writer{gemm, tile, gemm.builder(), Accumulators(gemm.builder(), tile.own, tile.columns)},
        row, column);
  }

 private:
  struct Writer {
    Gemm& gemm;
    const Tile& tile;
    kernel::Builder& b;
    Accumulators acc;
    std::vector<int> rows = {}, columns = {};

    int vecs() const { return tile.columns / 4; }
    Val first_row(Val row) { return b.add(row, b.mul(lane_of(b), b.i32(tile.own))); }

    Status accumulate(Val row, Val column) {
      for (int r = 0; r < tile.own; ++r) rows.push_back(gemm.row(b.add(first_row(row), b.i32(r))));
      if (gemm.b_along_k()) {
        for (int c = 0; c < tile.columns; c += kLanes) {
          const Val first = b.add(b.mul(column, b.i32(tile.columns)), b.i32(c));
          columns.push_back(gemm.column(b.add(first, lane_of(b))));
        }
      } else {
        const Val own = b.rem(lane_of(b), b.i32(vecs()));
        columns.push_back(gemm.column(b.add(b.mul(column, b.i32(vecs())), own)));
      }
      return gemm.k_loop([&](int depth) { return step(depth); });
    }

    /// Vectors of the right operand, lane by lane: along columns, number kLanes * i + lane holds
    /// position number / vecs, vector number % vecs.
    Result<std::vector<Values>> load_right(int depth) {
      std::vector<Values> out;
      if (gemm.b_along_k()) {
        for (int c : columns) {
          RP_ASSIGN(Values y, gemm.load_b(c, b.i32(0)));
          out.push_back(std::move(y));
        }
        return out;
      }
      for (int i = 0; i * kLanes < depth * vecs(); ++i) {
        const Val number = b.add(lane_of(b), b.i32(i * kLanes));
        const Val position = b.min(b.div(number, b.i32(vecs())), b.i32(depth - 1));
        RP_ASSIGN(Values y, gemm.load_b(columns[0], position));
        out.push_back(std::move(y));
      }
      return out;
    }

    Status step(int depth) {
      RP_ASSIGN(const std::vector<Values> rights, load_right(depth));
      RP_ASSIGN(const std::vector<Values> lefts, load_a_rows(gemm, rows));
      const bool along_k = gemm.b_along_k();
      acc.multiply(
          depth, [&](int o, int k) { return at(lefts, o, k); },
          [&](int s, int k) {
            const int number = along_k ? s : k * vecs() + s / 4;
            return broadcast(b, at(rights, number / kLanes, along_k ? k : s % 4), number % kLanes);
          });
      return {};
    }

    Status store(Val row, Val column) {
      for (int v = 0; v < vecs(); ++v) {
        const Val vec = b.add(b.mul(column, b.i32(vecs())), b.i32(v));
        RP_TRY(gemm.guard_columns(vec, [&] {
          const Val end = b.min(b.sub(gemm.row_count(), first_row(row)), b.i32(tile.own));
          return store_chunk(gemm, first_row(row), vec, end, tile.own, [&](int r) {
            const auto part = [&](int c) { return acc.result(r, 4 * v + c); };
            return b.compose(std::array{part(0), part(1), part(2), part(3)});
          });
        }));
      }
      return {};
    }
  };
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
