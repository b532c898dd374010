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
// For operands that are in memory as they are, or packed (operand.h). Rows past the last one are
// clamped, what lies past the end of K or past the last column becomes zero, so M, N and K may have
// any size in which the elements of a copy lie side by side.
//
// Shared memory: the stages, and sum_bytes().
#include <algorithm>
#include <cmath>
#include <span>

#include "codegen/target/device_costs.h"
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
/// Of fp32, whose elements and split matrices take twice the memory and registers.
constexpr AsyncShape kSplitShapes[] = {{{4, 4, 2, 16}, 3}, {{4, 4, 2, 16}, 4}, {{4, 4, 2, 32}, 3},
                                       {{2, 4, 2, 16}, 4}, {{2, 2, 2, 32}, 4}, {{2, 2, 2, 32}, 3},
                                       {{2, 1, 1, 64}, 3}};

/// The lines of an operand's block in shared memory.
BlockLayout lines(int base, bool along_k, const Tile& t, int elements) {
  const int pad = fragment_pad(operand_type(t), along_k);
  return along_k ? BlockLayout{base, t.step + pad, 1} : BlockLayout{base, 1, elements + pad};
}

int line_elements(bool along_k, const Tile& t, int elements) {
  const int pad = fragment_pad(operand_type(t), along_k);
  return along_k ? elements * (t.step + pad) : t.step * (elements + pad);
}

/// Of the stages and the sums.
int async_bytes(const GemmSize& size, const Tile& t) {
  const int stage = line_elements(size.a_copies->along_k, t, t.rows) +
                    line_elements(size.b_copies->along_k, t, t.columns);
  return kernel::byte_size(operand_type(t)) * t.stages * stage + sum_bytes(t);
}

/// Of the launch that sums each part of K.
double async_time(const GemmSize& size, const Tile& t, int splits) {
  const GpuCosts& gpu = kGpuCosts;
  const double threads = t.workgroup;
  const auto copies = [&](int lines, const GemmSize::Copies& of) {
    constexpr double kIssue = 8;  // the part of a copy's price that its bytes do not change
    constexpr int kMost = 16;
    const double price = kIssue + (gpu.copy - kIssue) * of.bytes() / kMost;
    return price * lines * t.step / of.elements / threads;
  };
  const double work =
      copies(t.rows, *size.a_copies) + copies(t.columns, *size.b_copies) + matrix_work(t);
  const double steps = std::ceil(size.k / t.step / splits) + gpu.ends;
  return gpu_time(tiles_of(size, t.rows, t.columns) * splits, threads, steps, work,
                  gpu.latency / (t.stages - 1));
}

/// What an invocation copies of an operand in each step.
class CopiedOperand {
 public:
  /// The rows or columns of a tile: so many elements, from number `first` of `count`.
  struct Side {
    int elements;
    Value first, count;
  };
  CopiedOperand(const TileWork& w, int shared, const Operand& operand, BlockLayout layout,
                const Side& side)
      : b_(w.gemm.builder()),
        shared_(shared),
        layout_(layout),
        depth_(w.gemm.extent().k),
        along_k_(layout.along == 1),
        step_(w.tile.step),
        copied_(elements_of_copy(operand, operand_type(w.tile))) {
    const auto& [elements, first, count] = side;
    if (operand.packed) {
      // [N / columns][K][columns], with zeros past the last column.
      buffer_ = operand.packed->buffer;
      distance_ = b_.i32(elements);
      const Value tile = w.origin.column_tile * elements * depth_;
      add(w, elements, [&](Value element) { return std::pair(tile + element, Val{}); });
      return;
    }
    const PlainOperand& plain = *operand.plain;
    buffer_ = plain.buffer;
    distance_ = plain.along;
    add(w, elements, [&, first = first, count = count](Value element) {
      const Value at = first + element;
      const Value from = along_k_ ? min(at, count - 1) : at;
      return std::pair(plain.first + from * plain.across, along_k_ ? Val{} : below(at, count));
    });
  }

  /// Begins to copy the step whose first k is given to a stage. What is not below `end` is zero.
  void copy(Value first_k, Value end, Value stage) {
    const auto depth = b_.as_const(depth_);
    const bool exact = depth && *depth % step_ == 0;  // all of the step is below `end`, or nothing
    const Value distance = first_k * distance_;
    for (const Chunk& c : chunks_) {
      const Value k = exact ? first_k : first_k + c.k;
      const Val all = b_.i32(copied_);
      const Val exist = along_k_ && !exact
                            ? below(k, end)
                            : Val{b_.select(k < end, c.exist ? c.exist : all, b_.i32(0))};
      b_.async_copy(buffer_, c.from + distance, shared_, stage + c.to, copied_, exist);
    }
  }

 private:
  struct Chunk {
    Value from;  // the index of its first element in the step at k = 0
    Value k;     // its first k within a step
    Value to;    // its place within a stage
    Val exist;   // how many of its elements exist; null: all
  };

  /// How many of the elements of a copy from `at` on lie before `end`.
  Val below(Value at, Value end) {
    // All of them or none, which costs less.
    const auto last = b_.as_const(end);
    const auto depth = b_.as_const(depth_);
    const bool whole = along_k_ ? depth && *depth % copied_ == 0 : last && *last % copied_ == 0;
    if (whole) return b_.select(at < end, b_.i32(copied_), b_.i32(0));
    return b_.max(b_.min(end - at, b_.i32(copied_)), b_.i32(0));
  }

  /// Splits the chunks over the invocations. `place` gives the index of an element at k = 0, and
  /// Chunk::exist.
  template <typename Place>
  void add(const TileWork& w, int elements, const Place& place) {
    const Value local = local_index(b_);
    const int invocations = static_cast<int>(w.tile.workgroup);
    const int width = (along_k_ ? step_ : elements) / copied_;
    for (int first = 0; first < elements * step_ / copied_; first += invocations) {
      // The chunks of an invocation have one place in their lines, if these divide evenly.
      const bool even = invocations % width == 0;
      const Value n = even ? local : local + first;
      const Value line = n / width + (even ? first / width : 0), chunk = n % width * copied_;
      const Value element = along_k_ ? line : chunk, k = along_k_ ? chunk : line;
      const auto [from, exist] = place(element);
      const Value to = element * layout_.across + k * layout_.along + layout_.base;
      chunks_.push_back({from + k * distance_, k, to, exist});
    }
  }

  kernel::Builder& b_;
  int shared_, buffer_ = -1;
  BlockLayout layout_;
  Value depth_, distance_;
  bool along_k_;
  int step_, copied_;
  std::vector<Chunk> chunks_;
};

class AsyncSchedule final : public Schedule {
 public:
  const char* name() const override { return "async matrix tile"; }

  std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& device) const override {
    std::vector<Tile> out;
    if (!size.mma || !size.a_copies || !size.b_copies || !device.async_copies()) return out;
    for (const MmaConfig& matrix : device.matrices(*size.mma)) {
      if (matrix.scope != MmaScope::Subgroup) continue;
      const bool split = matrix.types == kSplitMma;
      for (const AsyncShape& shape :
           split ? std::span<const AsyncShape>(kSplitShapes) : kAsyncShapes)
        add_tile(out, shape, matrix, size, device);
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
    CopiedOperand a(w, block.shared, left, block.a, {t.rows, w.origin.row, extent.m});
    CopiedOperand c(w, block.shared, right, block.b,
                    {t.columns, w.origin.column_tile * t.columns, extent.n});
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
