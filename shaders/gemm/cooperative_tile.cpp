// Kernel template: GEMM with cooperative matrices (matrix units), operands of fp16 or bf16 and fp32
// sums.
//
// A workgroup of 2 x 2 or 2 x 4 subgroups computes a tile of rows x columns of C. A subgroup has
// several rows and columns of cooperative matrices as accumulators (MatrixDivision); or else the
// workgroup itself has them (VK_NV_cooperative_matrix2). K is walked in steps
// of `step` values through two shared buffers (block_operands.h):
//   1. All invocations together load the next step of A and B from global memory into registers.
//   2. Each subgroup loads its matrices of A and B from the current buffer and multiplies them,
//      matrix.k values of k at a time.
//   3. The loaded registers are stored to the other buffer.
// At the end the sums go through shared memory, one row of each subgroup's matrices after another,
// and invocations apply the epilogue to vectors and store them.
//
// Operands are clamped past the last row and column and zero past the end of K, so M, N and K may
// have any size. Operands of fp32 are never rounded: on devices with matrices of TF32, they are
// multiplied as three products of these (codegen/kernel/semantics.md).
//
// Shared memory: see shared_bytes().
#include <algorithm>
#include <cmath>
#include <span>

#include "codegen/target/device_costs.h"
#include "shaders/matrix_tile.h"

namespace reprise::shaders {

using kernel::Ty;

namespace {

/// The more values of k, the fewer steps wait for memory.
constexpr MatrixArrangement kCooperativeShapes[] = {{4, 4, 2, 16}, {2, 4, 2, 32}, {2, 4, 2, 16},
                                                    {2, 2, 2, 32}, {2, 2, 2, 16}, {2, 1, 1, 16}};
/// Of matrices that a workgroup holds: one of the operands is as wide as the tile.
constexpr MatrixArrangement kWorkgroupShapes[] = {{1, 4, 1, 16}, {1, 2, 1, 32}, {1, 2, 1, 16}};

/// An upper bound of a tile's shared memory: two buffers of both operands, and sums.
int shared_bytes(const Tile& t) {
  const Ty type = operand_type(t);
  const int line = t.step + fragment_pad(type, true);
  const int across = t.columns + fragment_pad(type, false);
  const int right = std::max(t.columns * line, t.step * across);
  return 2 * kernel::byte_size(type) * (t.rows * line + right) + sum_bytes(t);
}

/// Of the launch that sums each part of K.
double time_of(const GemmSize& size, const Tile& t, int splits) {
  const double threads = t.workgroup;
  const double loads = (t.rows * size.a_loads + t.columns * size.b_loads) * t.step / 4 / threads;
  const GpuCosts& gpu = kGpuCosts;
  const double steps = std::ceil(size.k / t.step / splits) + gpu.ends;
  // A vector of fp32 is as long as a copy, which stores it without an instruction.
  const double store = t.matrix.types == kSplitMma ? gpu.shared_load : 0;
  const double work = (gpu.load + store) * loads + matrix_work(t);
  return gpu_time(tiles_of(size, t.rows, t.columns) * splits, threads, steps, work);
}

/// The tiles of one operation of matrix units.
void add_cooperative_tiles(std::vector<Tile>& out, const MmaConfig& matrix, const GemmSize& size,
                           const TargetFacts& device) {
  const bool whole = matrix.scope == MmaScope::Workgroup;
  for (const MatrixArrangement& shape : whole ? std::span<const MatrixArrangement>(kWorkgroupShapes)
                                              : std::span(kCooperativeShapes)) {
    const Tile t = matrix_tile(shape, matrix, device);
    const int vectors = 4 * static_cast<int>(t.workgroup);
    const bool even = t.rows * t.step % vectors == 0 && t.columns * t.step % vectors == 0 &&
                      MatrixDivision(t).stored_rows * t.columns % vectors == 0;
    if (even && t.workgroup <= device.workgroup_invocations() &&
        shared_bytes(t) <= static_cast<int>(device.shared_bytes())) {
      add_with_splits(out, t, size, tiles_of(size, t.rows, t.columns),
                      [&](int splits) { return time_of(size, t, splits); });
    }
  }
}

class CooperativeSchedule final : public Schedule {
 public:
  const char* name() const override { return "cooperative matrix tile"; }

  std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& device) const override {
    std::vector<Tile> out;
    if (!size.mma) return out;
    for (const MmaConfig& matrix : device.matrices(*size.mma)) {
      if (matrix.scope != MmaScope::Team) add_cooperative_tiles(out, matrix, size, device);
    }
    return out;
  }

  Status write(const TileWork& w) const override {
    kernel::Builder& b = w.gemm.builder();
    const Tile& t = w.tile;
    MatrixTile matrices(w);
    const bool along_k = matrix_b_along_k(w.gemm);
    const int line = t.step + fragment_pad(operand_type(t), true);
    const int across = t.columns + fragment_pad(operand_type(t), false);
    MatrixBlock block;
    block.a = {0, line, 1};
    block.b = {t.rows * line, along_k ? line : 1, along_k ? 1 : across};
    const int buffer = block.b.base + (along_k ? t.columns * line : t.step * block.b.along);
    block.shared = b.shared("block", operand_type(t), static_cast<uint32_t>(2 * buffer));
    BlockOperands operands(w, block.shared, block.a, block.b, true);
    RP_TRY(operands.loop(buffer, [&](Value at) {
      matrices.multiply(block, at, at);
      return Status();
    }));
    return matrices.store();
  }
};

}  // namespace

const Schedule& cooperative_tile_schedule() {
  static const CooperativeSchedule schedule;
  return schedule;
}

}  // namespace reprise::shaders
