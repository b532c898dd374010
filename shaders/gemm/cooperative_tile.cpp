// Kernel template: GEMM with cooperative matrices (matrix units), fp16 operands and fp32 sums.
//
// A workgroup of 2 x 2 or 2 x 4 subgroups computes a tile of rows x columns of C. A subgroup has
// several rows and columns of cooperative matrices as accumulators (Division). K is walked in steps
// of `step` values through two shared buffers (block_operands.h):
//   1. All invocations together load the next step of A and B from global memory into registers.
//   2. Each subgroup loads its matrices of A and B from the current buffer and multiplies them,
//      matrix.k values of k at a time.
//   3. The loaded registers are stored to the other buffer.
// At the end the sums go through shared memory, one row of each subgroup's matrices after another,
// and invocations apply the epilogue to vectors and store them.
//
// Operands are clamped past the last row and column and zero past the end of K, so M, N and K may
// have any size. Only for GEMMs whose operands are fp16 values: fp32 operands are never rounded.
//
// Shared memory: see shared_bytes().
#include <algorithm>
#include <cmath>

#include "codegen/target/device_costs.h"
#include "shaders/block_operands.h"

namespace reprise::shaders {

using kernel::Builtin;
using kernel::MatrixUse;
using kernel::Ty;

namespace {

constexpr int kSideRows = 2;  // subgroups of a workgroup along M

/// Subgroups of a workgroup along N, matrices of a subgroup along M and N, and values of k. The
/// more of these, the fewer steps wait for memory.
struct Shape {
  int side_columns, rows, columns, step;
};
constexpr Shape kCooperativeShapes[] = {{4, 4, 2, 16}, {2, 4, 2, 32}, {2, 4, 2, 16},
                                        {2, 2, 2, 32}, {2, 2, 2, 16}, {2, 1, 1, 16}};

/// How a workgroup's tile is divided.
struct Division {
  explicit Division(const Tile& t)
      : side_columns(static_cast<int>(t.workgroup / t.subgroup_size) / kSideRows),
        rows(t.rows / kSideRows / static_cast<int>(t.matrix.m)),
        columns(t.columns / side_columns / static_cast<int>(t.matrix.n)),
        stored_rows(kSideRows * static_cast<int>(t.matrix.m)) {}

  int side_columns;
  int rows, columns;  // matrices of a subgroup
  int stored_rows;    // of C that go through shared memory at once
};
// Elements between lines in shared memory, to avoid bank conflicts.
constexpr int kFragmentPad = 8;  // fp16 operands
constexpr int kSumPad = 4;       // fp32 sums

/// An upper bound of a tile's shared memory: two buffers of both operands, and sums.
int shared_bytes(const Tile& t) {
  const int left = t.rows * (t.step + kFragmentPad);
  const int right =
      std::max(t.columns * (t.step + kFragmentPad), t.step * (t.columns + kFragmentPad));
  return 2 * 2 * (left + right) + 4 * Division(t).stored_rows * (t.columns + kSumPad);
}

double workgroups_of(const GemmSize& size, const Tile& t) {
  return size.batch * std::ceil(size.m / t.rows) * std::ceil(size.n / t.columns);
}

/// Of the launch that sums each part of K.
double time_of(const GemmSize& size, const Tile& t, int splits) {
  const double threads = t.workgroup;
  const double loads = (t.rows * size.a_loads + t.columns) * t.step / 4 / threads;
  const GpuCosts& gpu = kGpuCosts;
  const double multiply_adds = t.rows * t.columns * t.step / threads / gpu.matrix_speed;
  const Division part(t);
  const double matrix_loads = static_cast<double>(part.rows + part.columns) * t.step / t.matrix.k;
  const double work =
      gpu.load * loads + gpu.matrix_load * matrix_loads + multiply_adds + gpu.barrier;
  const double steps = std::ceil(size.k / t.step / splits) + gpu.ends;
  return gpu_time(workgroups_of(size, t) * splits, threads, steps, work);
}

/// The matrices of a subgroup: those of A, those of B, and the sums, row by row. (row, column) is
/// the first element that they cover in the workgroup's tile, except that neighbouring rows of
/// matrices lie stored_rows apart.
struct SubgroupMatrices {
  std::vector<int> a, b, sums;
  Value row, column;
};

SubgroupMatrices declare(const TileWork& w) {
  kernel::Builder& b = w.gemm.builder();
  const Tile& t = w.tile;
  const Division part(t);
  const uint32_t rows = t.matrix.m, columns = t.matrix.n, depth = t.matrix.k;
  SubgroupMatrices m;
  const Value subgroup = b.convert(b.builtin(Builtin::SubgroupIndex), Ty::I32);
  m.row = subgroup / part.side_columns * static_cast<int64_t>(rows);
  m.column = subgroup % part.side_columns * (part.columns * static_cast<int64_t>(columns));
  for (int i = 0; i < part.rows; ++i)
    m.a.push_back(b.matrix("left" + std::to_string(i), MatrixUse::Left, Ty::F16, rows, depth));
  for (int i = 0; i < part.columns; ++i)
    m.b.push_back(b.matrix("right" + std::to_string(i), MatrixUse::Right, Ty::F16, depth, columns));
  for (int i = 0; i < part.rows * part.columns; ++i) {
    m.sums.push_back(b.matrix("sum" + std::to_string(i), MatrixUse::Sum, Ty::F32, rows, columns));
    b.matrix_zero(m.sums.back());
  }
  return m;
}

/// Where the operands of a step lie in shared memory.
struct SharedBlock {
  int shared = -1;
  BlockLayout a, b;
};

/// Adds the products of a step, matrix.k values of k at a time. `buffer` is the offset of the
/// current buffer.
void multiply(const TileWork& w, const SubgroupMatrices& m, const SharedBlock& block,
              Value buffer) {
  kernel::Builder& b = w.gemm.builder();
  const Division part(w.tile);
  const bool by_columns = block.b.along == 1;
  const int stride = by_columns ? block.b.across : block.b.along;
  // Lines of A and B begin at multiples of 16 bytes if the matrices do.
  const uint32_t align = w.tile.matrix.k % 8 == 0 && w.tile.matrix.n % 8 == 0 ? 8 : 1;
  for (int k = 0; k < w.tile.step; k += static_cast<int>(w.tile.matrix.k)) {
    const auto at = [&](const BlockLayout& operand, Value element) {
      return buffer + (operand.base + k * operand.along) + element * operand.across;
    };
    for (size_t i = 0; i < m.a.size(); ++i) {
      const Value row = m.row + static_cast<int64_t>(i) * part.stored_rows;
      b.matrix_load(m.a[i], block.shared, at(block.a, row), static_cast<uint32_t>(block.a.across),
                    false, align);
    }
    for (size_t i = 0; i < m.b.size(); ++i) {
      const Value column = m.column + static_cast<int64_t>(i) * w.tile.matrix.n;
      b.matrix_load(m.b[i], block.shared, at(block.b, column), static_cast<uint32_t>(stride),
                    by_columns, align);
    }
    for (size_t r = 0; r < m.a.size(); ++r) {
      for (size_t c = 0; c < m.b.size(); ++c)
        b.matrix_mul_add(m.sums[r * m.b.size() + c], m.a[r], m.b[c]);
    }
  }
}

/// Stores a row of the subgroups' matrices to shared memory, from which neighbouring invocations
/// take neighbouring vectors and store them to C.
Status store_row(const TileWork& w, const SubgroupMatrices& m, int matrix_row, int sums) {
  kernel::Builder& b = w.gemm.builder();
  const Tile& t = w.tile;
  const int line = t.columns + kSumPad, rows = Division(t).stored_rows;
  for (size_t c = 0; c < m.b.size(); ++c) {
    const Value column = m.column + static_cast<int64_t>(c) * t.matrix.n;
    b.matrix_store(m.sums[static_cast<size_t>(matrix_row) * m.b.size() + c], sums,
                   m.row * line + column, static_cast<uint32_t>(line));
  }
  b.barrier();
  const int width = t.columns / 4;
  const int invocations = static_cast<int>(t.workgroup);
  const int count = rows * width / invocations;
  const Value local = local_index(b);
  const bool along = w.gemm.a_along_k();  // else neighbouring elements of C differ in row
  return w.result.loop(b.i32(count), count, [&](Value i) {
    const Value n = i * invocations + local;
    const Value r = along ? n / width : n % rows;
    const Value v = along ? n % width : n / rows;
    const Value row = w.origin.row + (r + matrix_row * static_cast<int64_t>(rows));
    const Value vec = w.origin.column_tile * width + v;
    return w.result.guard_columns(vec, [&] {
      return w.result.guard_row(
          row, [&] { return w.result.store(row, vec, b.shared_load(sums, r * line + v * 4, 4)); });
    });
  });
}

Status store_sums(const TileWork& w, const SubgroupMatrices& m) {
  kernel::Builder& b = w.gemm.builder();
  const Division part(w.tile);
  const int line = w.tile.columns + kSumPad;
  const int sums = b.shared("sums", Ty::F32, static_cast<uint32_t>(part.stored_rows * line));
  for (int r = 0; r < part.rows; ++r) {
    if (r > 0) b.barrier();
    RP_TRY(store_row(w, m, r, sums));
  }
  return {};
}

/// The tiles of one operation of matrix units.
void add_cooperative_tiles(std::vector<Tile>& out, const MmaConfig& matrix, const GemmSize& size,
                           const TargetFacts& device) {
  for (const Shape& shape : kCooperativeShapes) {
    Tile t;
    t.matrix = matrix;
    t.rows = kSideRows * shape.rows * static_cast<int>(t.matrix.m);
    t.columns = shape.side_columns * shape.columns * static_cast<int>(t.matrix.n);
    t.per_invocation = shape.rows;
    t.unit = Unit::Workgroup;
    t.subgroup_size = device.subgroup_size();
    t.workgroup = static_cast<uint32_t>(kSideRows * shape.side_columns) * device.subgroup_size();
    t.step = std::max(shape.step, static_cast<int>(t.matrix.k));
    const int vectors = 4 * static_cast<int>(t.workgroup);
    const bool even = t.rows * t.step % vectors == 0 && t.columns * t.step % vectors == 0 &&
                      Division(t).stored_rows * t.columns % vectors == 0;
    if (even && t.workgroup <= device.workgroup_invocations() &&
        shared_bytes(t) <= static_cast<int>(device.shared_bytes())) {
      add_with_splits(out, t, size, workgroups_of(size, t),
                      [&](int splits) { return time_of(size, t, splits); });
    }
  }
}

class CooperativeSchedule final : public Schedule {
 public:
  const char* name() const override { return "cooperative matrix tile"; }

  std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& device) const override {
    std::vector<Tile> out;
    if (!size.fp16_operands) return out;
    for (const MmaConfig& matrix : device.matrices(kHalfMma)) {
      if (matrix.scope == MmaScope::Subgroup) add_cooperative_tiles(out, matrix, size, device);
    }
    return out;
  }

  Status write(const TileWork& w) const override {
    kernel::Builder& b = w.gemm.builder();
    const Tile& t = w.tile;
    const SubgroupMatrices matrices = declare(w);
    const bool along_k = w.gemm.b_along_k();
    const int line = t.step + kFragmentPad;
    SharedBlock block;
    block.a = {0, line, 1};
    block.b = {t.rows * line, along_k ? line : 1, along_k ? 1 : t.columns + kFragmentPad};
    const int buffer = block.b.base + (along_k ? t.columns * line : t.step * block.b.along);
    block.shared = b.shared("block", Ty::F16, static_cast<uint32_t>(2 * buffer));
    BlockOperands operands(w, block.shared, block.a, block.b);
    RP_TRY(operands.loop(buffer, [&](Value at) {
      multiply(w, matrices, block, at);
      return Status();
    }));
    return store_sums(w, matrices);
  }
};

}  // namespace

const Schedule& cooperative_tile_schedule() {
  static const CooperativeSchedule schedule;
  return schedule;
}

}  // namespace reprise::shaders
