// The shared-memory tile of GPUs: a workgroup computes a block of the result. For each step of a
// few positions its invocations load both operands together, consecutive ones from consecutive
// places, into shared memory; each then multiplies rows and columns of its own out of it. Two
// buffers take turns: the next step is on its way from memory while this one is multiplied, and one
// barrier a step is enough.
//
// Where a result is small and its sum long, slices of the invocations share the positions of each
// step, and their sums are added at the end. Where the workgroups leave cores idle even so, K is
// split over workgroups, and a second launch adds the partial sums in a fixed order: results are
// the same in every run, which atomic additions would not give.
#include <algorithm>
#include <cmath>

#include "shaders/block_operands.h"

namespace reprise::shaders {

using kernel::Ty;

namespace {

constexpr int kPad = 4;      // so that columns of a block do not lie in one bank
constexpr int kWritten = 4;  // positions that the innermost loop's body covers

/// A block of rows x columns, an invocation's part of it, positions of a step, slices of a step.
struct WorkgroupTile {
  int rows, columns, own_rows, own_columns, step, slices;

  constexpr int per_slice() const { return rows * columns / (own_rows * own_columns); }
  constexpr int workgroup() const { return per_slice() * slices; }
};

// Invocations load whole vectors, equally many.
constexpr WorkgroupTile kShapes[] = {
    {128, 64, 8, 8, 8, 1}, {64, 64, 8, 8, 8, 1},  {64, 32, 4, 4, 16, 1},
    {32, 64, 4, 4, 16, 1}, {16, 64, 4, 8, 16, 2}, {16, 32, 4, 8, 32, 4},
};

constexpr bool fits(const WorkgroupTile& s) {
  const int vectors = s.workgroup() * 4;
  const int floats = 2 * s.step * (s.rows + s.columns + 2 * kPad);
  return s.workgroup() <= 128 && 4 * floats <= 16384 && s.rows * s.step % vectors == 0 &&
         s.columns * s.step % vectors == 0 && s.step % (kWritten * s.slices) == 0;
}
static_assert(std::ranges::all_of(kShapes, fits));

double workgroups_of(const GemmSize& size, const WorkgroupTile& s) {
  return size.batch * std::ceil(size.m / s.rows) * std::ceil(size.n / s.columns);
}

double cost_of(const GemmSize& size, const WorkgroupTile& s, int splits) {
  const double threads = s.workgroup();
  const double loads = (s.rows * size.a_loads + s.columns) * s.step / 4 / threads;
  const double positions = s.step / static_cast<double>(s.slices);
  const double shared_loads = positions * (s.own_rows + s.own_columns) / 4;
  constexpr double kSharedLoad = 4, kBarrier = 30;
  const double work = kGpuLoad * loads + kSharedLoad * shared_loads + kBarrier +
                      positions * s.own_rows * s.own_columns;
  // Before the first step nothing is multiplied; then come the sums of slices, and rows stored.
  constexpr double kEnds = 10;
  const double steps = std::ceil(size.k / s.step / splits) + s.slices + kEnds;
  return split_time(gpu_time(workgroups_of(size, s) * splits, threads, steps, work), size, splits);
}

/// The part of a workgroup's block that an invocation multiplies: `rows` x `columns` elements in
/// groups of four, from its number among the rows' and columns' groups of all invocations.
struct OwnPart {
  int rows, columns;
  Value slice;   // of K
  Value number;  // of the invocation in its slice
  Value row_group, column_group;
};

OwnPart own_part(const TileWork& w) {
  const Tile& t = w.tile;
  const int per_slice = static_cast<int>(t.workgroup) / t.slices;
  OwnPart own;
  own.rows = t.own;
  own.columns = t.rows * t.columns / (t.own * per_slice);
  const Value local = local_index(w.gemm.builder());
  own.slice = local / per_slice;
  own.number = local % per_slice;
  // Consecutive invocations store to consecutive places.
  const int row_groups = t.rows / own.rows, column_groups = t.columns / own.columns;
  const bool along = w.gemm.a_along_k();
  own.row_group = along ? own.number / column_groups : own.number % row_groups;
  own.column_group = along ? own.number % column_groups : own.number / row_groups;
  return own;
}

/// Vectors of an invocation's rows (or columns) at one k of the shared block from `base`: the
/// groups of all invocations lie side by side, so that a warp reads shared memory without
/// conflicts.
std::vector<Value> load_groups(const TileWork& w, int shared, Value base, Value group, int size,
                               int own) {
  std::vector<Value> out;
  const int groups = own / 4;
  for (int g = 0; g < groups; ++g) {
    const Value at = base + (group * 4 + g * (size / groups));
    out.push_back(w.gemm.builder().shared_load(shared, at, 4));
  }
  return out;
}

/// Adds this slice's k of a step, a few written out.
Status multiply(const TileWork& w, const OwnPart& own, LocalGrid& acc, int shared,
                const std::function<std::pair<Value, Value>(Value k)>& at) {
  kernel::Builder& b = w.gemm.builder();
  const int positions = w.tile.step / w.tile.slices;
  const Value first = own.slice * positions;
  const auto add_k = [&](Value k) {
    const auto [a_base, b_base] = at(k);
    const auto xs = load_groups(w, shared, a_base, own.row_group, w.tile.rows, own.rows);
    const auto ys = load_groups(w, shared, b_base, own.column_group, w.tile.columns, own.columns);
    for (int r = 0; r < acc.rows(); ++r) {
      const Value x = b.splat(b.extract(xs[static_cast<size_t>(r / 4)], r % 4), 4);
      for (int v = 0; v < acc.columns(); ++v)
        acc.store(r, v, b.fma(x, ys[static_cast<size_t>(v)], acc.load(r, v)));
    }
  };
  return w.result.loop(b.i32(positions / kWritten), positions / kWritten, [&](Value i) {
    for (int n = 0; n < kWritten; ++n) add_k(first + i * kWritten + n);
    return Status();
  });
}

/// Adds the sums of the other slices to those of the first, one after another.
void add_slices(const TileWork& w, const OwnPart& own, LocalGrid& acc, int shared) {
  kernel::Builder& b = w.gemm.builder();
  const int per_slice = static_cast<int>(w.tile.workgroup) / w.tile.slices;
  const auto each = [&](const std::function<void(int r, int v, Value at)>& fn) {
    for (int r = 0; r < acc.rows(); ++r) {
      for (int v = 0; v < acc.columns(); ++v)
        fn(r, v, (own.number + (r * acc.columns() + v) * per_slice) * 4);
    }
  };
  for (int s = 1; s < w.tile.slices; ++s) {
    b.barrier();
    b.if_then(b.eq(own.slice, b.i32(s)), [&] {
      each([&](int r, int v, Value at) { b.shared_store(shared, at, acc.load(r, v)); });
    });
    b.barrier();
    b.if_then(b.eq(own.slice, b.i32(0)), [&] {
      each([&](int r, int v, Value at) {
        const Value other = b.shared_load(shared, at, 4);
        acc.store(r, v, acc.load(r, v) + other);
      });
    });
  }
}

/// One loop over the rows for each vector of columns, so that the epilogue is written once.
Status store_columns(const TileWork& w, const OwnPart& own, LocalGrid& acc, int v) {
  kernel::Builder& b = w.gemm.builder();
  const Value vec = w.origin.column_tile * (w.tile.columns / 4) +
                    (own.column_group + v * (w.tile.columns / own.columns));
  return w.result.guard_columns(vec, [&] {
    const int staged =
        b.local("staged", kernel::vec(kernel::kF32, 4), static_cast<uint32_t>(own.rows));
    for (int r = 0; r < own.rows; ++r) b.local_store(staged, acc.load(r, v), b.i32(r));
    return w.result.loop(b.i32(own.rows), own.rows, [&](Value r) {
      const int groups = own.rows / 4;
      const Value row = w.origin.row + (own.row_group * 4 + r / 4 * (w.tile.rows / groups) + r % 4);
      return w.result.guard_row(row,
                                [&] { return w.result.store(row, vec, b.local_load(staged, r)); });
    });
  });
}

class SharedSchedule final : public Schedule {
 public:
  const char* name() const override { return "shared tile"; }

  std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& device) const override {
    std::vector<Tile> out;
    if (device.cpu_type()) return out;  // there 1 to 9 GF/s, measured, where others reach 80
    for (const WorkgroupTile& s : kShapes) {
      Tile t;
      t.rows = s.rows;
      t.columns = s.columns;
      t.own = s.own_rows;
      t.unit = Unit::Workgroup;
      t.workgroup = static_cast<uint32_t>(s.workgroup());
      t.step = s.step;
      t.slices = s.slices;
      t.fma = true;
      for (const int splits : k_splits(size, workgroups_of(size, s), size.k / s.step)) {
        t.splits = splits;
        t.cost = cost_of(size, s, splits);
        out.push_back(t);
      }
    }
    return out;
  }

  Status write(const TileWork& w) const override {
    kernel::Builder& b = w.gemm.builder();
    const Tile& tile = w.tile;
    const OwnPart own = own_part(w);
    LocalGrid acc(b, "acc", kernel::vec(kernel::kF32, 4), own.rows, own.columns / 4, 0);

    // One k after another: what a k has is read as vectors of rows or columns.
    const BlockLayout a_part{0, 1, tile.rows + kPad};
    const BlockLayout b_part{a_part.along * tile.step, 1, tile.columns + kPad};
    const int buffer = b_part.base + b_part.along * tile.step;
    const int sums = tile.slices > 1 ? tile.rows * tile.columns : 0;
    const int shared =
        b.shared("block", Ty::F32, static_cast<uint32_t>(std::max(2 * buffer, sums)));
    BlockOperands operands(w, shared, a_part, b_part);
    Status status;
    RP_TRY(operands.loop(buffer, [&](Value at) {
      status = multiply(w, own, acc, shared, [&](Value k) {
        return std::pair(at + a_part.base + k * a_part.along, at + b_part.base + k * b_part.along);
      });
    }));
    RP_TRY(status);
    add_slices(w, own, acc, shared);

    const auto store = [&]() -> Status {
      for (int v = 0; v < acc.columns(); ++v) RP_TRY(store_columns(w, own, acc, v));
      return {};
    };
    if (tile.slices == 1) return store();
    b.if_then(b.eq(own.slice, b.i32(0)), [&] { status = store(); });
    return status;
  }
};

}  // namespace

const Schedule& shared_tile_schedule() {
  static const SharedSchedule schedule;
  return schedule;
}

}  // namespace reprise::shaders
