// The tile of matrix units: four subgroups of a workgroup multiply a block of the result as
// cooperative matrices, fp16 operands with fp32 sums. Both operands pass through shared memory,
// where they are zero past the ends of the result and of the sum, so every size is right; the
// result passes through it on its way to the epilogue.
//
// Only for GEMMs whose operands are fp16 values: fp32 ones are never rounded to fit.
#include <algorithm>
#include <cmath>

#include "shaders/block_operands.h"

namespace reprise::shaders {

using kernel::Builtin;
using kernel::MatrixUse;
using kernel::Ty;
using kernel::Val;

namespace {

constexpr int kSide = 2;  // subgroups of a workgroup along rows, and along columns
constexpr int kMinStep = 16;
constexpr int kPad = 8;     // fp16 elements, and
constexpr int kSumPad = 4;  // fp32 elements, so that lines do not lie in one bank

int step_of(const MatrixShape& m) {
  return std::max(kMinStep, static_cast<int>(m.depth));
}

/// Shared memory of a tile, at most: operands twice, and the result.
int shared_bytes(const Tile& t) {
  const int left = t.rows * (t.step + kPad);
  const int right = std::max(t.columns * (t.step + kPad), t.step * (t.columns + kPad));
  return 2 * 2 * (left + right) + 4 * t.rows * (t.columns + kSumPad);
}

class CooperativeSchedule final : public Schedule {
 public:
  const char* name() const override { return "cooperative matrix tile"; }

  std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& device) const override {
    std::vector<Tile> out;
    if (!device.matrix() || !size.half) return out;
    for (const int own : {2, 1}) {
      Tile t;
      t.rows = kSide * own * static_cast<int>(device.matrix().rows);
      t.columns = kSide * own * static_cast<int>(device.matrix().columns);
      t.own = own;
      t.unit = Unit::Workgroup;
      t.workgroup = kSide * kSide * device.subgroup_size();
      t.subgroup_size = device.subgroup_size();
      t.matrix = device.matrix();
      t.step = step_of(device.matrix());
      t.cost = cost_of(size, t);
      const int vectors = 4 * static_cast<int>(t.workgroup);
      const bool even = t.rows * t.step % vectors == 0 && t.columns * t.step % vectors == 0 &&
                        t.rows * t.columns % vectors == 0;
      if (even && t.workgroup <= device.workgroup_invocations() &&
          shared_bytes(t) <= static_cast<int>(device.shared_bytes())) {
        out.push_back(t);
      }
    }
    return out;
  }

  Status write(Gemm& gemm, const Tile& tile, Val row, Val column) const override {
    return write_tile(Writer(gemm, tile), row, column);
  }

 private:
  static double cost_of(const GemmSize& size, const Tile& t) {
    const double threads = t.workgroup;
    const double loads = (t.rows * size.a_loads + t.columns) * t.step / 4 / threads;
    // A matrix unit makes as many multiply-adds as this many lanes.
    constexpr double kMatrixUnit = 8, kMatrixLoad = 8, kBarrier = 30;
    const double products = t.rows * t.columns * t.step / threads / kMatrixUnit;
    const double matrix_loads = 2.0 * t.own * t.step / t.matrix.depth;
    const double work = kGpuLoad * loads + kMatrixLoad * matrix_loads + products + kBarrier;
    const double workgroups =
        size.batch * std::ceil(size.m / t.rows) * std::ceil(size.n / t.columns);
    constexpr double kEnds = 10;  // the first step's loads, and the result's way to memory
    return gpu_time(workgroups, threads, std::ceil(size.k / t.step) + kEnds, work);
  }

  class Writer {
   public:
    Writer(Gemm& gemm, const Tile& tile)
        : gemm_(gemm),
          b_(gemm.builder()),
          tile_(tile),
          rows_(static_cast<int>(tile.matrix.rows)),
          columns_(static_cast<int>(tile.matrix.columns)),
          depth_(static_cast<int>(tile.matrix.depth)) {
      const Val subgroup = b_.convert(b_.builtin(Builtin::SubgroupIndex), Ty::I32);
      own_row_ = b_.mul(b_.div(subgroup, i32(kSide)), i32(tile.own * rows_));
      own_column_ = b_.mul(b_.rem(subgroup, i32(kSide)), i32(tile.own * columns_));
    }

    Status accumulate(Val row, Val column) {
      declare();
      const bool along_k = gemm_.b_along_k();
      const int line = tile_.step + kPad;
      const BlockLayout left{0, line, 1};
      const BlockLayout right{tile_.rows * line, along_k ? line : 1,
                              along_k ? 1 : tile_.columns + kPad};
      const int right_size = along_k ? tile_.columns * line : tile_.step * right.along;
      const int buffer = right.base + right_size;
      block_ = b_.shared("block", Ty::F16, static_cast<uint32_t>(2 * buffer));
      BlockOperands operands(gemm_, tile_, block_, left, right);
      operands.begin(row, column);
      return operands.loop(buffer, [&](Val at) {
        for (int k = 0; k < tile_.step; k += depth_) multiply(left, right, at, k);
      });
    }

    Status store(Val row, Val column) {
      const int line = tile_.columns + kSumPad;
      const int sums = b_.shared("sums", Ty::F32, static_cast<uint32_t>(tile_.rows * line));
      for (int r = 0; r < tile_.own; ++r) {
        for (int c = 0; c < tile_.own; ++c) {
          const Val at = b_.add(b_.mul(b_.add(own_row_, i32(r * rows_)), i32(line)),
                                b_.add(own_column_, i32(c * columns_)));
          b_.matrix_store(sum(r, c), sums, at, static_cast<uint32_t>(line));
        }
      }
      b_.barrier();
      const int width = tile_.columns / 4;
      const int invocations = static_cast<int>(tile_.workgroup);
      const int count = tile_.rows * width / invocations;
      const Val local = b_.convert(b_.builtin(Builtin::LocalIndex), Ty::I32);
      const bool along = gemm_.a_along_k();  // else rows lie side by side in memory
      Status status;
      gemm_.loop(i32(count), count, [&](Val i) {
        const Val n = b_.add(b_.mul(i, i32(invocations)), local);
        const Val r = along ? b_.div(n, i32(width)) : b_.rem(n, i32(tile_.rows));
        const Val v = along ? b_.rem(n, i32(width)) : b_.div(n, i32(tile_.rows));
        const Val at = b_.add(row, r);
        const Val vec = b_.add(b_.mul(column, i32(width)), v);
        status = gemm_.guard_columns(vec, [&] {
          return gemm_.guard_row(at, [&] {
            const Val from = b_.add(b_.mul(r, i32(line)), b_.mul(v, i32(4)));
            return gemm_.store(at, vec, b_.shared_load(sums, from, 4));
          });
        });
      });
      return status;
    }

   private:
    Val i32(int v) { return b_.i32(v); }
    int sum(int r, int c) const {
      const int index = r * tile_.own + c;
      return sums_[static_cast<size_t>(index)];
    }

    void declare() {
      const auto& [rows, columns, depth] = tile_.matrix;
      for (int i = 0; i < tile_.own; ++i) {
        const std::string n = std::to_string(i);
        lefts_.push_back(b_.matrix("left" + n, MatrixUse::Left, Ty::F16, rows, depth));
        rights_.push_back(b_.matrix("right" + n, MatrixUse::Right, Ty::F16, depth, columns));
      }
      for (int i = 0; i < tile_.own * tile_.own; ++i) {
        sums_.push_back(
            b_.matrix("sum" + std::to_string(i), MatrixUse::Sum, Ty::F32, rows, columns));
        b_.matrix_zero(sums_.back());
      }
    }

    /// The positions of a step from k that one operation covers.
    void multiply(const BlockLayout& left, const BlockLayout& right, Val buffer, int k) {
      for (int i = 0; i < tile_.own; ++i) {
        const auto index = static_cast<size_t>(i);
        const auto at = [&](const BlockLayout& part, Val own) {
          return b_.add(b_.add(buffer, i32(part.base + k * part.along)),
                        b_.mul(own, i32(part.across)));
        };
        b_.matrix_load(lefts_[index], block_, at(left, b_.add(own_row_, i32(i * rows_))),
                       static_cast<uint32_t>(left.across));
        const bool by_columns = right.along == 1;
        b_.matrix_load(rights_[index], block_, at(right, b_.add(own_column_, i32(i * columns_))),
                       static_cast<uint32_t>(by_columns ? right.across : right.along), by_columns);
      }
      for (int r = 0; r < tile_.own; ++r) {
        for (int c = 0; c < tile_.own; ++c)
          b_.matrix_mul_add(sum(r, c), lefts_[static_cast<size_t>(r)],
                            rights_[static_cast<size_t>(c)]);
      }
    }

    Gemm& gemm_;
    kernel::Builder& b_;
    const Tile& tile_;
    int rows_, columns_, depth_;  // of a matrix
    int block_ = -1;
    Val own_row_, own_column_;  // of the subgroup, in the block
    std::vector<int> lefts_, rights_, sums_;
  };
};

}  // namespace

const Schedule& cooperative_schedule() {
  static const CooperativeSchedule schedule;
  return schedule;
}

}  // namespace reprise::shaders
