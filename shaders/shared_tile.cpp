// The shared-memory tile of GPUs: a workgroup computes a block of the result. For each step of a
// few positions its invocations load both operands together, consecutive ones from consecutive
// places, into shared memory; each then multiplies rows and columns of its own out of it. Two
// buffers take turns: the next step is on its way from memory while this one is multiplied, and one
// barrier a step is enough.
//
// Where a result is small and its sum long, slices of the invocations share the positions of each
// step, and their sums are added at the end. A split of the sum over workgroups would need a second
// launch, or atomic additions whose order differs from run to run; a group is one launch, and
// results are the same in every run.
#include <algorithm>
#include <array>
#include <cmath>

#include "shaders/block_operands.h"

namespace reprise::shaders {

using kernel::Builtin;
using kernel::Ty;
using kernel::Val;

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

double cost_of(const GemmSize& size, const WorkgroupTile& s) {
  const double threads = s.workgroup();
  const double loads = (s.rows * size.a_loads + s.columns) * s.step / 4 / threads;
  const double positions = s.step / static_cast<double>(s.slices);
  const double shared_loads = positions * (s.own_rows + s.own_columns) / 4;
  constexpr double kSharedLoad = 4, kBarrier = 30;
  const double work = kGpuLoad * loads + kSharedLoad * shared_loads + kBarrier +
                      positions * s.own_rows * s.own_columns;
  const double workgroups = size.batch * std::ceil(size.m / s.rows) * std::ceil(size.n / s.columns);
  // Before the first step nothing is multiplied; then come the sums of slices, and rows stored.
  constexpr double kEnds = 10;
  return gpu_time(workgroups, threads, std::ceil(size.k / s.step) + s.slices + kEnds, work);
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
      t.cost = cost_of(size, s);
      out.push_back(t);
    }
    return out;
  }

  Status write(Gemm& gemm, const Tile& tile, Val row, Val column) const override {
    return write_tile(Writer(gemm, tile), row, column);
  }

 private:
  class Writer {
   public:
    Writer(Gemm& gemm, const Tile& tile)
        : gemm_(gemm),
          b_(gemm.builder()),
          tile_(tile),
          own_columns_(tile.rows * tile.columns * tile.slices /
                       (tile.own * static_cast<int>(tile.workgroup))),
          per_slice_(static_cast<int>(tile.workgroup) / tile.slices) {
      const Val local = b_.convert(b_.builtin(Builtin::LocalIndex), Ty::I32);
      slice_ = b_.div(local, i32(per_slice_));
      own_ = b_.rem(local, i32(per_slice_));
      // Consecutive invocations store to consecutive places.
      const int row_groups = tile.rows / tile.own;
      const int column_groups = tile.columns / own_columns_;
      const bool along = gemm.a_along_k();
      own_row_ = along ? b_.div(own_, i32(column_groups)) : b_.rem(own_, i32(row_groups));
      own_column_ = along ? b_.rem(own_, i32(column_groups)) : b_.div(own_, i32(row_groups));
    }

    Status accumulate(Val row, Val column) {
      for (int i = 0; i < tile_.own * vecs(); ++i) {
        acc_.push_back(b_.local("acc" + std::to_string(i), kVec));
        b_.local_store(acc_.back(), b_.splat(b_.f32(0), 4));
      }
      // One k after another: what a k has is read as vectors of rows or columns.
      const BlockLayout left{0, 1, tile_.rows + kPad};
      const BlockLayout right{left.along * tile_.step, 1, tile_.columns + kPad};
      const int buffer = right.base + right.along * tile_.step;
      const int sums = tile_.slices > 1 ? tile_.rows * tile_.columns : 0;
      shared_ = b_.shared("block", Ty::F32, static_cast<uint32_t>(std::max(2 * buffer, sums)));
      BlockOperands operands(gemm_, tile_, shared_, left, right);
      operands.begin(row, column);
      RP_TRY(operands.loop(buffer, [&](Val at) { multiply(left, right, at); }));
      add_slices();
      return {};
    }

    Status store(Val row, Val column) {
      Status status;
      const auto store_all = [&] {
        for (int v = 0; v < vecs() && status.ok(); ++v) status = store_columns(row, column, v);
      };
      if (tile_.slices == 1) {
        store_all();
      } else {
        b_.if_then(b_.eq(slice_, i32(0)), store_all);
      }
      return status;
    }

   private:
    static constexpr kernel::Type kVec{Ty::F32, 4};

    Val i32(int v) { return b_.i32(v); }
    int vecs() const { return own_columns_ / 4; }
    int acc(int r, int v) const {
      const int index = r * vecs() + v;
      return acc_[static_cast<size_t>(index)];
    }

    /// The block's row of an invocation's group of four rows, likewise for columns: groups of all
    /// invocations side by side, so that a warp reads shared memory without conflicts.
    Val own_group(Val own, int group, int size, int own_size) {
      const int groups = own_size / 4;
      return b_.add(b_.mul(own, i32(4)), i32(group * (size / groups)));
    }

    /// Adds the sums of the other slices to those of the first, one after another.
    void add_slices() {
      for (int s = 1; s < tile_.slices; ++s) {
        b_.barrier();
        const auto at = [&](size_t i) {
          const int first = static_cast<int>(i) * per_slice_;
          return b_.mul(b_.add(own_, i32(first)), i32(4));
        };
        b_.if_then(b_.eq(slice_, i32(s)), [&] {
          for (size_t i = 0; i < acc_.size(); ++i)
            b_.shared_store(shared_, at(i), b_.local_load(acc_[i]));
        });
        b_.barrier();
        b_.if_then(b_.eq(slice_, i32(0)), [&] {
          for (size_t i = 0; i < acc_.size(); ++i) {
            const Val other = b_.shared_load(shared_, at(i), 4);
            b_.local_store(acc_[i], b_.add(b_.local_load(acc_[i]), other));
          }
        });
      }
    }

    /// This slice's k of a step, a few written out.
    void multiply(const BlockLayout& left, const BlockLayout& right, Val buffer) {
      const int positions = tile_.step / tile_.slices;
      const Val first = b_.mul(slice_, i32(positions));
      gemm_.loop(i32(positions / kWritten), positions / kWritten, [&](Val i) {
        for (int n = 0; n < kWritten; ++n) {
          const Val k = b_.add(b_.add(first, b_.mul(i, i32(kWritten))), i32(n));
          const auto at = [&](const BlockLayout& part) {
            return b_.add(b_.add(buffer, i32(part.base)), b_.mul(k, i32(part.along)));
          };
          multiply_k(at(left), at(right));
        }
      });
    }

    std::vector<Val> load_groups(Val base, Val own, int size, int own_size) {
      std::vector<Val> out;
      out.reserve(static_cast<size_t>(own_size / 4));
      for (int g = 0; g < own_size / 4; ++g)
        out.push_back(b_.shared_load(shared_, b_.add(base, own_group(own, g, size, own_size)), 4));
      return out;
    }

    void multiply_k(Val left, Val right) {
      const std::vector<Val> xs = load_groups(left, own_row_, tile_.rows, tile_.own);
      const std::vector<Val> ys = load_groups(right, own_column_, tile_.columns, own_columns_);
      for (int r = 0; r < tile_.own; ++r) {
        const Val x = b_.splat(b_.extract(xs[static_cast<size_t>(r / 4)], r % 4), 4);
        for (int v = 0; v < vecs(); ++v) {
          const Val total = b_.local_load(acc(r, v));
          b_.local_store(acc(r, v), b_.fma(x, ys[static_cast<size_t>(v)], total));
        }
      }
    }

    /// One loop over the rows for each vector of columns, so that the epilogue is written once.
    Status store_columns(Val row, Val column, int v) {
      const Val vec = b_.add(b_.mul(column, i32(tile_.columns / 4)),
                             b_.add(own_column_, i32(v * (tile_.columns / own_columns_))));
      return gemm_.guard_columns(vec, [&] {
        const int staged = b_.local("staged", kVec, static_cast<uint32_t>(tile_.own));
        for (int r = 0; r < tile_.own; ++r)
          b_.local_store(staged, b_.local_load(acc(r, v)), i32(r));
        Status status;
        gemm_.loop(i32(tile_.own), tile_.own, [&](Val r) {
          const int groups = tile_.own / 4;
          const Val group = b_.mul(b_.div(r, i32(4)), i32(tile_.rows / groups));
          const Val in_block = b_.add(b_.add(b_.mul(own_row_, i32(4)), group), b_.rem(r, i32(4)));
          const Val at = b_.add(row, in_block);
          status =
              gemm_.guard_row(at, [&] { return gemm_.store(at, vec, b_.local_load(staged, r)); });
        });
        return status;
      });
    }

    Gemm& gemm_;
    kernel::Builder& b_;
    const Tile& tile_;
    int own_columns_;
    int per_slice_;  // invocations
    int shared_ = -1;
    Val slice_, own_, own_row_, own_column_;
    std::vector<int> acc_;
  };
};

}  // namespace

const Schedule& shared_schedule() {
  static const SharedSchedule schedule;
  return schedule;
}

}  // namespace reprise::shaders
