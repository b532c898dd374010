// GEMMs with very few rows, on GPUs: a weight is read once and used once, so all that counts
// is how many loads are on their way. A workgroup has a few columns; its invocations split the
// positions along K between them (slices), and add their sums in shared memory at the end.
// Invocations side by side read neighbouring memory: columns of one position, or positions of one
// column where those lie side by side.
#include <algorithm>
#include <array>
#include <cmath>

#include "shaders/contraction.h"

namespace reprise::shaders {

using kernel::Builtin;
using kernel::Ty;
using kernel::Val;

namespace {

constexpr double kMostRows = 4;

/// Columns of a workgroup and its invocations.
struct WorkgroupTile {
  int columns;
  uint32_t workgroup;

  int vecs() const { return columns / 4; }
  int slices() const { return static_cast<int>(workgroup) / vecs(); }
};

constexpr WorkgroupTile kShapes[] = {{8, 64}, {16, 64}, {32, 64}, {16, 128}, {32, 128}, {64, 128}};

double cost_of(const GemmSize& size, const WorkgroupTile& s, int rows) {
  // Four positions of four columns in each step, and the tree of sums at the end.
  constexpr double kBarrier = 30;
  const double work = kGpuLoad * (rows * size.a_loads + 4) + 16.0 * rows;
  const double steps = std::ceil(size.k / (4 * s.slices()));
  const double ends = 1 + kBarrier * std::log2(s.slices()) / work;
  const double workgroups = size.batch * std::ceil(size.m / rows) * std::ceil(size.n / s.columns);
  return gpu_time(workgroups, s.workgroup, steps + ends, work);
}

class GemvWriter {
 public:
  GemvWriter(Gemm& gemm, const Tile& tile) : gemm_(gemm), b_(gemm.builder()), tile_(tile) {
    const Val local = b_.convert(b_.builtin(Builtin::LocalIndex), Ty::I32);
    const bool along_k = gemm.b_along_k();
    const Val inner = b_.i32(along_k ? tile.slices : vecs());
    slice_ = along_k ? b_.rem(local, inner) : b_.div(local, inner);
    vec_ = along_k ? b_.div(local, inner) : b_.rem(local, inner);
  }

  Status accumulate(Val row, Val column) {
    for (int r = 0; r < tile_.rows; ++r) {
      acc_.push_back(b_.local("acc" + std::to_string(r), kVec));
      b_.local_store(acc_.back(), b_.splat(b_.f32(0), 4));
      rows_.push_back(gemm_.row(b_.add(row, b_.i32(r))));
    }
    const Val vec = first_vec(column);
    if (gemm_.b_along_k()) {
      for (int c = 0; c < 4; ++c)
        columns_.push_back(gemm_.column(b_.add(b_.mul(vec, b_.i32(4)), b_.i32(c))));
    } else {
      columns_.push_back(gemm_.column(vec));
    }
    RP_TRY(gemm_.k_blocks(
        [] { return Status(); },
        [&](Val block) { return step(b_.add(b_.mul(block, b_.i32(tile_.slices)), slice_)); }));
    add_slices();
    return {};
  }

  Status store(Val row, Val column) {
    Status status;
    const Val vec = first_vec(column);
    b_.if_then(b_.eq(slice_, b_.i32(0)), [&] {
      status = gemm_.guard_columns(vec, [&] {
        return store_rows(gemm_, row, tile_.rows, vec,
                          [&](int r) { return b_.shared_load(shared_, place(r, slice_), 4); });
      });
    });
    return status;
  }

 private:
  static constexpr kernel::Type kVec{Ty::F32, 4};

  int vecs() const { return tile_.columns / 4; }
  Val first_vec(Val column) { return b_.add(b_.mul(column, b_.i32(vecs())), vec_); }
  Val place(int row, Val slice) {
    const Val at = b_.add(b_.mul(slice, b_.i32(vecs())), vec_);
    return b_.mul(b_.add(at, b_.i32(row * static_cast<int>(tile_.workgroup))), b_.i32(4));
  }

  /// The sums of all slices, as a tree; the first slice's invocations have the whole.
  void add_slices() {
    shared_ = b_.shared("sums", Ty::F32, tile_.workgroup * 4 * static_cast<uint32_t>(tile_.rows));
    for (int r = 0; r < tile_.rows; ++r)
      b_.shared_store(shared_, place(r, slice_), b_.local_load(acc_[static_cast<size_t>(r)]));
    b_.barrier();
    for (int half = tile_.slices / 2; half > 0; half /= 2) {
      b_.if_then(b_.lt(slice_, b_.i32(half)), [&] {
        for (int r = 0; r < tile_.rows; ++r) {
          const Val own = b_.shared_load(shared_, place(r, slice_), 4);
          const Val other = b_.shared_load(shared_, place(r, b_.add(slice_, b_.i32(half))), 4);
          b_.shared_store(shared_, place(r, slice_), b_.add(own, other));
        }
      });
      b_.barrier();
    }
  }

  /// The four k from 4 * quad.
  Status step(Val quad) {
    std::vector<Gemm::Values> lefts, rights;
    for (int r : rows_) {
      RP_ASSIGN(Gemm::Values x, gemm_.load_a_block(r, quad));
      lefts.push_back(std::move(x));
    }
    const bool along_k = gemm_.b_along_k();
    for (int i = 0; i < 4; ++i) {
      const Val position = b_.add(b_.mul(quad, b_.i32(4)), b_.i32(i));
      Result<Gemm::Values> y = along_k ? gemm_.load_b_block(columns_[static_cast<size_t>(i)], quad)
                                       : gemm_.load_b_block(columns_[0], position);
      RP_ASSIGN(Gemm::Values four, std::move(y));
      rights.push_back(std::move(four));
    }
    for (size_t k = 0; k < 4; ++k) {
      const auto part = [&](size_t c) { return along_k ? rights[c][k] : rights[k][c]; };
      const Val y = b_.compose(std::array{part(0), part(1), part(2), part(3)});
      for (size_t r = 0; r < acc_.size(); ++r) {
        const Val x = b_.splat(lefts[r][k], 4);
        b_.local_store(acc_[r], b_.fma(x, y, b_.local_load(acc_[r])));
      }
    }
    return {};
  }

  Gemm& gemm_;
  kernel::Builder& b_;
  const Tile& tile_;
  int shared_ = -1;
  Val slice_, vec_;
  std::vector<int> acc_, rows_, columns_;
};

class Gemv final : public Schedule {
 public:
  const char* name() const override { return "gemv"; }

  std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& device) const override {
    std::vector<Tile> out;
    if (device.cpu_type() || size.m > kMostRows) return out;
    for (const WorkgroupTile& s : kShapes) {
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

  Status write(Gemm& gemm, const Tile& tile, Val row, Val column) const override {
    return write_tile(GemvWriter(gemm, tile), row, column);
  }
};

}  // namespace

const Schedule& gemv_schedule() {
  static const Gemv schedule;
  return schedule;
}

}  // namespace reprise::shaders
