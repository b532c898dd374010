// Kernel template: GEMM through shared memory, for GPUs.
//
// A workgroup computes a tile of rows x columns of C and walks K in steps of `step` values:
//   1. All invocations together load the next step of A and B from global memory into registers.
//      Neighbouring invocations read neighbouring addresses (block_operands.h).
//   2. Each invocation multiplies the current step out of shared memory and accumulates its
//      own_rows x own_columns results in registers.
//   3. The loaded registers are stored to the other of two shared buffers.
// With two buffers, global loads overlap the multiplication, and one barrier per step is enough.
//
// Invocations: rows * columns / (own_rows * own_columns) of them cover the tile. With slices > 1
// (for a small C and a large K) there are as many for each slice of a step; their sums are
// added in shared memory at the end. Where C has too few tiles for all cores even so, K is split
// over workgroups (TileShape::splits): a second launch adds the partial sums in a fixed order, so
// that results are the same in every run, which atomic additions would not guarantee.
//
// Shared memory: 2 * step * (rows + columns + 2 * kPad) floats, at most 16 KB, which is what every
// Vulkan device has.
#include <algorithm>
#include <cmath>

#include "codegen/target/device_costs.h"
#include "shaders/block_operands.h"

namespace reprise::shaders {

using kernel::Ty;

namespace {

constexpr int kPad = 4;       // floats between lines of a block, to avoid bank conflicts
constexpr int kUnrolled = 4;  // values of k in the unrolled body of the innermost loop

/// tile_m x tile_n of a workgroup, the part of one invocation, tile_k, and slices of it.
struct WorkgroupTile {
  int rows, columns, own_rows, own_columns, step, slices;

  constexpr int per_slice() const { return rows * columns / (own_rows * own_columns); }
  constexpr int workgroup() const { return per_slice() * slices; }
};

// Every invocation loads the same number of whole vectors of each operand: see fits().
constexpr WorkgroupTile kShapes[] = {
    {128, 64, 8, 8, 8, 1}, {64, 64, 8, 8, 8, 1},  {64, 32, 4, 4, 16, 1},
    {32, 64, 4, 4, 16, 1}, {16, 64, 4, 8, 16, 2}, {16, 32, 4, 8, 32, 4},
};

constexpr bool fits(const WorkgroupTile& s) {
  const int vectors = s.workgroup() * 4;
  const int floats = 2 * s.step * (s.rows + s.columns + 2 * kPad);
  return s.workgroup() <= 128 && 4 * floats <= 16384 && s.rows * s.step % vectors == 0 &&
         s.columns * s.step % vectors == 0 && s.step % (kUnrolled * s.slices) == 0;
}
static_assert(std::ranges::all_of(kShapes, fits));

/// Of the launch that sums each part of K.
double time_of(const GemmSize& size, const WorkgroupTile& s, int splits) {
  const double threads = s.workgroup();
  const double loads = (s.rows * size.a_loads + s.columns * size.b_loads) * s.step / 4 / threads;
  const double positions = s.step / static_cast<double>(s.slices);
  const double shared_loads = positions * (s.own_rows + s.own_columns) / 4;
  const GpuCosts& gpu = kGpuCosts;
  const double work = gpu.load * loads + gpu.shared_load * shared_loads + gpu.barrier +
                      positions * s.own_rows * s.own_columns;
  const double steps = std::ceil(size.k / s.step / splits) + s.slices + gpu.ends;
  return gpu_time(tiles_of(size, s.rows, s.columns) * splits, threads, steps, work);
}

/// The part of the workgroup's tile that an invocation computes: rows x columns elements, in groups
/// of four rows and four columns. The groups of all invocations alternate (load_groups).
struct OwnPart {
  int rows, columns;
  Value slice;                    // of each step
  Value number;                   // of the invocation within its slice
  Value row_group, column_group;  // the first group of rows, and of columns
};

OwnPart own_part(const TileWork& w) {
  const Tile& t = w.tile;
  const int per_slice = static_cast<int>(t.workgroup) / t.slices;
  OwnPart own;
  own.rows = t.per_invocation;
  own.columns = t.rows * t.columns / (t.per_invocation * per_slice);
  const Value local = local_index(w.gemm.builder());
  own.slice = local / per_slice;
  own.number = local % per_slice;
  // Neighbouring invocations store to neighbouring addresses.
  const int row_groups = t.rows / own.rows, column_groups = t.columns / own.columns;
  const bool along = w.gemm.a_along_k();
  own.row_group = along ? own.number / column_groups : own.number % row_groups;
  own.column_group = along ? own.number % column_groups : own.number / row_groups;
  return own;
}

/// Loads an invocation's rows (or columns) at one k, as vectors of four, from the line at `base` of
/// a shared block. Group g of an invocation lies next to group g of its neighbours, so that a
/// subgroup reads shared memory without bank conflicts.
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

/// Adds the products of this slice's values of k, kUnrolled of them in each iteration. `at` returns
/// where the lines of A and B at a k begin.
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
  return w.result.loop(b.i32(positions / kUnrolled), positions / kUnrolled, [&](Value i) {
    for (int n = 0; n < kUnrolled; ++n) add_k(first + i * kUnrolled + n);
    return Status();
  });
}

/// Adds the sums of the other slices to those of the first, one slice after another.
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

/// Stores vector v of an invocation's columns. The rows are a loop, so that the code of the
/// epilogue is written once per vector.
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
    // Measured on CPU-type devices: 1 to 9 GFLOP/s, while other schedules reach 80.
    if (device.cpu_type()) return out;
    for (const WorkgroupTile& s : kShapes) {
      Tile t;
      t.rows = s.rows;
      t.columns = s.columns;
      t.per_invocation = s.own_rows;
      t.unit = Unit::Workgroup;
      t.workgroup = static_cast<uint32_t>(s.workgroup());
      t.step = s.step;
      t.slices = s.slices;
      t.fma = true;
      add_with_splits(out, t, size, tiles_of(size, s.rows, s.columns),
                      [&](int splits) { return time_of(size, s, splits); });
    }
    return out;
  }

  Status write(const TileWork& w) const override {
    kernel::Builder& b = w.gemm.builder();
    const Tile& tile = w.tile;
    const OwnPart own = own_part(w);
    LocalGrid acc(b, "acc", kernel::vec(kernel::kF32, 4), own.rows, own.columns / 4, 0);

    // A line holds all rows (or columns) of one k, so that they are read as vectors.
    const BlockLayout a_part{0, 1, tile.rows + kPad};
    const BlockLayout b_part{a_part.along * tile.step, 1, tile.columns + kPad};
    const int buffer = b_part.base + b_part.along * tile.step;
    const int sums = tile.slices > 1 ? tile.rows * tile.columns : 0;
    const int shared =
        b.shared("block", Ty::F32, static_cast<uint32_t>(std::max(2 * buffer, sums)));
    BlockOperands operands(w, shared, a_part, b_part);
    RP_TRY(operands.loop(buffer, [&](Value at) {
      return multiply(w, own, acc, shared, [&](Value k) {
        return std::pair(at + a_part.base + k * a_part.along, at + b_part.base + k * b_part.along);
      });
    }));
    add_slices(w, own, acc, shared);

    const auto store = [&]() -> Status {
      for (int v = 0; v < acc.columns(); ++v) RP_TRY(store_columns(w, own, acc, v));
      return {};
    };
    if (tile.slices == 1) return store();
    Status status;
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
