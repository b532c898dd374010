// Kernel template: GEMM on matrix units, operands of fp16, bf16 or fp32 and fp32 sums, through a
// ring of stages that asynchronous copies fill.
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
// One operand at least is in memory as it is, or packed (operand.h). The other one may be computed
// (the prologue of the GEMM, an image of a convolution), consist of integers that are weights, or
// have strides that no copy allows. Invocations then load it into registers while they multiply the
// step before, convert it, and store it to one of two blocks (block_operands.h).
//
// Rows past the last one are clamped, what lies past the end of K or past the last column becomes
// zero, so M, N and K may have any size. If the last step may not be whole, it comes first, so that
// no copy in the loop asks where K ends.
//
// Shared memory: the stages of what is copied, the blocks of what is not, and sum_bytes().
#include <algorithm>
#include <cmath>
#include <span>

#include "codegen/target/device_costs.h"
#include "shaders/copied_operand.h"
#include "shaders/matrix_tile.h"

namespace reprise::shaders {

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
/// Of fp32, whose elements and split matrices take twice the memory and registers.
constexpr AsyncShape kSplitShapes[] = {{{4, 4, 2, 16}, 3}, {{4, 4, 2, 16}, 4}, {{4, 4, 2, 32}, 3},
                                       {{2, 4, 2, 16}, 4}, {{2, 2, 2, 32}, 4}, {{2, 2, 2, 32}, 3},
                                       {{2, 1, 1, 64}, 3}};

constexpr int kConvertedBlocks = 2;

/// The lines of an operand's block in shared memory.
BlockLayout lines(int base, bool along_k, const Tile& t, int elements) {
  const int pad = fragment_pad(operand_type(t), along_k);
  return along_k ? BlockLayout{base, t.step + pad, 1} : BlockLayout{base, 1, elements + pad};
}

int line_elements(bool along_k, const Tile& t, int elements) {
  const int pad = fragment_pad(operand_type(t), along_k);
  return along_k ? elements * (t.step + pad) : t.step * (elements + pad);
}

/// All blocks of an operand; at most so many if its lines are not known.
int block_elements(const std::optional<GemmSize::Copies>& copies, const Tile& t, int elements) {
  if (copies) return t.stages * line_elements(copies->along_k, t, elements);
  return kConvertedBlocks *
         std::max(line_elements(true, t, elements), line_elements(false, t, elements));
}

/// Of the stages, the blocks and the sums.
int async_bytes(const GemmSize& size, const Tile& t) {
  return kernel::byte_size(operand_type(t)) * (block_elements(size.a_copies, t, t.rows) +
                                               block_elements(size.b_copies, t, t.columns)) +
         sum_bytes(t);
}

/// What an invocation does in a step to bring `elements` lines of an operand to shared memory.
double transfer_work(const std::optional<GemmSize::Copies>& copies, const Tile& t, int elements,
                     double loads) {
  const GpuCosts& gpu = kGpuCosts;
  const double all = static_cast<double>(elements) * t.step / t.workgroup;
  if (!copies) return gpu.load * loads * all / 4;
  return copy_work(all, copies->elements, copies->bytes());
}

/// Of the launch that sums each part of K.
double async_time(const GemmSize& size, const Tile& t, int splits) {
  const GpuCosts& gpu = kGpuCosts;
  const double work = transfer_work(size.a_copies, t, t.rows, size.a_loads) +
                      transfer_work(size.b_copies, t, t.columns, size.b_loads) + matrix_work(t);
  const double steps = std::ceil(size.k / t.step / splits) + gpu.ends;
  const int ahead = size.a_copies && size.b_copies ? t.stages - 1 : 1;
  return gpu_time(tiles_of(size, t.rows, t.columns) * splits, t.workgroup, steps, work,
                  gpu.latency / ahead);
}

/// The code of one tile.
class AsyncTile {
 public:
  explicit AsyncTile(const TileWork& w) : w_(w), b_(w.gemm.builder()), matrices_(w) {}

  Status write() {
    RP_TRY(place_operands());
    const Value first = w_.gemm.first_k_block(), count = w_.gemm.k_block_count();
    StageRing ring(b_, w_.tile.stages, stage_);
    const auto fill = [&]() -> Status {
      if (converted_) RP_TRY(converted_->begin());
      ring.fill([&](int i, Value to) { copy(first, count, i, to); });
      return {};
    };
    RP_TRY(w_.gemm.k_blocks(fill, [&](Value i) -> Status {
      const StageRing::Places at = ring.await();
      const Value block = i % kConvertedBlocks * block_;
      const auto multiply = [&] {
        copy_whole(first, count, i + ring.ahead(), at.newest);
        matrices_.multiply(lines_, copied_a_ ? at.oldest : block, copied_b_ ? at.oldest : block);
        return Status();
      };
      if (converted_) {
        RP_TRY(converted_->advance(i, (1 - i % kConvertedBlocks) * block_, multiply));
      } else {
        RP_TRY(multiply());
      }
      ring.advance(at);
      return {};
    }));
    b_.copy_wait(0);
    return matrices_.store();
  }

 private:
  /// Decides how operands come to shared memory: first lie the stages of what is copied, then the
  /// blocks of what is converted.
  Status place_operands() {
    const Tile& t = w_.tile;
    const Operand left = w_.gemm.a(), right = w_.gemm.b();
    const bool copies_a = elements_of_copy(left, operand_type(t)) != 0,
               copies_b = elements_of_copy(right, operand_type(t)) != 0;
    if (!copies_a && !copies_b) return internal_error("no operand of the GEMM can be copied");
    const auto along_k = [](const Operand& o) { return o.plain && o.plain->contiguous_along; };
    const bool a_along_k = !copies_a || along_k(left);
    const bool b_along_k = copies_b ? along_k(right) : matrix_b_along_k(w_.gemm);
    const int a_size = line_elements(a_along_k, t, t.rows);
    const int b_size = line_elements(b_along_k, t, t.columns);
    stage_ = (copies_a ? a_size : 0) + (copies_b ? b_size : 0);
    block_ = a_size + b_size - stage_;
    const int blocks = t.stages * stage_;
    lines_.a = lines(copies_a ? 0 : blocks, a_along_k, t, t.rows);
    lines_.b = lines(!copies_b ? blocks : copies_a ? a_size : 0, b_along_k, t, t.columns);
    lines_.shared = b_.shared("stages", operand_type(t),
                              static_cast<uint32_t>(blocks + kConvertedBlocks * block_));
    const GemmExtent extent = w_.gemm.extent();
    const auto stage = [&](BlockLayout layout) {
      return CopiedOperand::Stage{lines_.shared, operand_type(t), layout,
                                  extent.k,      t.step,          t.workgroup};
    };
    const Value column_tile = w_.origin.column_tile;
    if (copies_a)
      copied_a_.emplace(b_, stage(lines_.a), left,
                        CopiedOperand::Side{t.rows, w_.origin.row, extent.m});
    if (copies_b)
      copied_b_.emplace(
          b_, stage(lines_.b), right,
          CopiedOperand::Side{t.columns, column_tile * t.columns, extent.n, column_tile});
    using Layout = std::optional<BlockLayout>;
    if (!copies_a || !copies_b)
      converted_.emplace(w_, lines_.shared, copies_a ? Layout() : lines_.a,
                         copies_b ? Layout() : lines_.b, true);
    return {};
  }

  /// Begins to copy what is multiplied in iteration i, before the loop, to the stage `at`.
  void copy(Value first, Value count, int i, Value at) {
    if (i > 0 || w_.gemm.whole_k_blocks()) return copy_whole(first, count, b_.i32(i), at);
    const Value last = first + count - 1;
    const Value end = min(w_.gemm.extent().k, (last + 1) * w_.tile.step);
    for (auto* operand : {&copied_a_, &copied_b_})
      if (*operand) (*operand)->copy(last * w_.tile.step, end, at);
    b_.copy_commit();
  }

  /// The same to the stage `at`, of an iteration whose step is whole, or does not exist.
  void copy_whole(Value first, Value count, Value i, Value at) {
    // A step that may not be whole was the first.
    const Value step = w_.gemm.whole_k_blocks() ? i : i - 1;
    for (auto* operand : {&copied_a_, &copied_b_})
      if (*operand) (*operand)->copy_whole((first + step) * w_.tile.step, i < count, at);
    b_.copy_commit();
  }

  const TileWork& w_;
  kernel::Builder& b_;
  MatrixTile matrices_;
  MatrixBlock lines_;
  std::optional<CopiedOperand> copied_a_, copied_b_;
  std::optional<BlockOperands> converted_;
  int stage_ = 0, block_ = 0;  // elements of a stage of what is copied, of a block of what is not
};

class AsyncSchedule final : public Schedule {
 public:
  const char* name() const override { return "async matrix tile"; }

  std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& device) const override {
    std::vector<Tile> out;
    if (!size.mma || (!size.a_copies && !size.b_copies) || !device.async_copies()) return out;
    for (const MmaConfig& matrix : device.matrices(*size.mma)) {
      if (matrix.scope != MmaScope::Subgroup) continue;
      const bool split = matrix.types == kSplitMma;
      for (const AsyncShape& shape :
           split ? std::span<const AsyncShape>(kSplitShapes) : kAsyncShapes)
        add_tile(out, shape, matrix, size, device);
    }
    return out;
  }

  Status write(const TileWork& w) const override { return AsyncTile(w).write(); }

 private:
  static void add_tile(std::vector<Tile>& out, const AsyncShape& shape, const MmaConfig& matrix,
                       const GemmSize& size, const TargetFacts& device) {
    Tile t = matrix_tile(shape.matrices, matrix, device);
    t.stages = shape.stages;
    const int invocations = static_cast<int>(t.workgroup);
    const auto elements = [](const std::optional<GemmSize::Copies>& copies) {
      return copies ? copies->elements : 4;
    };
    const bool even = t.step % static_cast<int>(matrix.k) == 0 &&
                      t.rows * t.step / elements(size.a_copies) % invocations == 0 &&
                      t.columns * t.step / elements(size.b_copies) % invocations == 0 &&
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
