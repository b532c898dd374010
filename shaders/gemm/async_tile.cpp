// Kernel template: GEMM on matrix units, operands of fp16 or bf16 and fp32 sums, through a ring of
// stages that asynchronous copies fill.
//
// Tile::stages blocks of A and B, of `step` values of k each, lie in shared memory. While a
// workgroup multiplies one (matrix_tile.h), the copies of the next ones are under way, so that it
// waits for memory only if all of them are late:
//   1. Wait for the oldest copies, and for the other invocations.
//   2. Begin to copy the block that is stages - 1 ahead, to where the last one was multiplied.
//   3. Multiply the oldest block.
// Neighbouring invocations copy neighbouring 16 bytes, or 8 or 4 if the lines of an operand are
// aligned to no more. No instruction converts or moves an element.
//
// For operands that are in memory as they are, or packed (operand.h). Rows past the last one are
// clamped, what lies past the end of K or past the last column becomes zero, so M, N and K may have
// any size in which the elements of a copy lie side by side.
//
// Shared memory: the stages, and sum_bytes().
#include <algorithm>
#include <cmath>

#include "codegen/target/device_costs.h"
#include "shaders/copied_operand.h"
#include "shaders/matrix_tile.h"

namespace reprise::shaders {

using kernel::Ty;

namespace {

struct AsyncShape {
  MatrixArrangement matrices;
  int stages;
};
/// Among equal ones the first is taken: of the largest, two workgroups with three stages fit into
/// the shared memory of an sm_80 or sm_90.
constexpr AsyncShape kAsyncShapes[] = {{{4, 4, 2, 32}, 3}, {{4, 4, 2, 32}, 4}, {{4, 4, 2, 16}, 3},
                                       {{4, 4, 2, 16}, 2}, {{2, 4, 2, 32}, 4}, {{2, 4, 2, 16}, 4},
                                       {{2, 4, 2, 32}, 2}, {{2, 2, 2, 32}, 4}, {{2, 2, 2, 32}, 3},
                                       {{2, 1, 1, 64}, 4}};

/// The lines of an operand's block in shared memory.
BlockLayout lines(int base, bool along_k, const Tile& t, int elements) {
  return along_k ? BlockLayout{base, t.step + kFragmentPad, 1}
                 : BlockLayout{base, 1, elements + kFragmentPad};
}

int line_elements(bool along_k, const Tile& t, int elements) {
  return along_k ? elements * (t.step + kFragmentPad) : t.step * (elements + kFragmentPad);
}

/// Of the stages and the sums.
int async_bytes(const GemmSize& size, const Tile& t) {
  const int stage = line_elements(size.a_copies->along_k, t, t.rows) +
                    line_elements(size.b_copies->along_k, t, t.columns);
  return 2 * t.stages * stage + sum_bytes(t);
}

/// Of the launch that sums each part of K.
double async_time(const GemmSize& size, const Tile& t, int splits) {
  const GpuCosts& gpu = kGpuCosts;
  const double threads = t.workgroup;
  const auto copies = [&](int lines, const GemmSize::Copies& of) {
    return copy_work(lines * t.step, of.elements) / threads;
  };
  const double work =
      copies(t.rows, *size.a_copies) + copies(t.columns, *size.b_copies) + matrix_work(t);
  const double steps = std::ceil(size.k / t.step / splits) + gpu.ends;
  return gpu_time(tiles_of(size, t.rows, t.columns) * splits, threads, steps, work,
                  gpu.latency / (t.stages - 1));
}

class AsyncSchedule final : public Schedule {
 public:
  const char* name() const override { return "async matrix tile"; }

  std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& device) const override {
    std::vector<Tile> out;
    if (!size.mma || !size.a_copies || !size.b_copies || !device.async_copies()) return out;
    for (const MmaConfig& matrix : device.matrices(*size.mma)) {
      if (matrix.scope != MmaScope::Subgroup) continue;
      for (const AsyncShape& shape : kAsyncShapes) add_tile(out, shape, matrix, size, device);
    }
    return out;
  }

  Status write(const TileWork& w) const override {
    kernel::Builder& b = w.gemm.builder();
    const Tile& t = w.tile;
    const Operand left = w.gemm.a(), right = w.gemm.b();
    const bool right_along_k = right.plain && right.plain->contiguous_along;
    MatrixTile matrices(w);
    MatrixBlock block;
    const bool left_along_k = left.plain && left.plain->contiguous_along;
    block.a = lines(0, left_along_k, t, t.rows);
    const int base = line_elements(left_along_k, t, t.rows);
    block.b = lines(base, right_along_k, t, t.columns);
    const int stage = base + line_elements(right_along_k, t, t.columns);
    block.shared = b.shared("stages", operand_type(t), static_cast<uint32_t>(t.stages * stage));
    const GemmExtent extent = w.gemm.extent();
    if (!left.plain || (!right.plain && !right.packed))
      return internal_error("an operand of the GEMM cannot be copied");
    const auto operand = [&](const Operand& of, BlockLayout layout, CopiedOperand::Side side) {
      side.tile = w.origin.column_tile;
      return CopiedOperand(b, {block.shared, layout, extent.k, t.step, t.workgroup}, of, side);
    };
    CopiedOperand a = operand(left, block.a, {t.rows, w.origin.row, extent.m});
    CopiedOperand c =
        operand(right, block.b, {t.columns, w.origin.column_tile * t.columns, extent.n});
    const Value first = w.gemm.first_k_block();
    const Value end = min(extent.k, (first + w.gemm.k_block_count()) * t.step);
    const auto copy = [&](Value step, Value at) {
      const Value k = (first + step) * t.step;
      a.copy(k, end, at);
      c.copy(k, end, at);
      b.copy_commit();
    };
    // Where the stage lies that is multiplied, and the one that is filled: the stage before it.
    const int oldest = b.local("oldest", {Ty::I32, 1}), newest = b.local("newest", {Ty::I32, 1});
    const int ahead = t.stages - 1;
    const auto fill = [&]() -> Status {
      for (int i = 0; i < ahead; ++i) copy(b.i32(i), b.i32(i * stage));
      b.local_store(oldest, b.i32(0));
      b.local_store(newest, b.i32(ahead * stage));
      return {};
    };
    RP_TRY(w.gemm.k_blocks(fill, [&](Value i) -> Status {
      b.copy_wait(static_cast<uint32_t>(t.stages - 2));
      b.barrier();
      const Value from = b.local_load(oldest), to = b.local_load(newest);
      copy(i + ahead, to);
      matrices.multiply(block, from);
      b.local_store(newest, from);
      const Value next = from + stage;
      b.local_store(oldest, b.select(next < b.i32(t.stages * stage), next, b.i32(0)));
      return {};
    }));
    b.copy_wait(0);
    return matrices.store();
  }

 private:
  static void add_tile(std::vector<Tile>& out, const AsyncShape& shape, const MmaConfig& matrix,
                       const GemmSize& size, const TargetFacts& device) {
    Tile t = matrix_tile(shape.matrices, matrix, device);
    t.stages = shape.stages;
    const int invocations = static_cast<int>(t.workgroup);
    const bool even = t.step % static_cast<int>(matrix.k) == 0 &&
                      t.rows * t.step / size.a_copies->elements % invocations == 0 &&
                      t.columns * t.step / size.b_copies->elements % invocations == 0 &&
                      MatrixDivision(t).stored_rows * t.columns % (4 * invocations) == 0;
    if (!even || t.workgroup > device.workgroup_invocations() ||
        async_bytes(size, t) > static_cast<int>(device.shared_bytes()))
      return;
    add_with_splits(out, t, size, tiles_of(size, t.rows, t.columns),
                    [&](int splits) { return async_time(size, t, splits); });
  }
};

}  // namespace

const Schedule& async_tile_schedule() {
  static const AsyncSchedule schedule;
  return schedule;
}

}  // namespace reprise::shaders
