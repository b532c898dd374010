// Kernel templates for contractions. A Gemm says what is multiplied (a MatMul, or a convolution as
// an implicit GEMM: codegen/lower): C[m, n] = sum over k of A[m, k] * B[k, n]. A Schedule says
// which tile of C one unit of work computes, and how. Every schedule works for every Gemm, on every
// backend.
//
// To add a schedule, write gemm/NAME.cpp, which defines `const Schedule& NAME_schedule()`. The
// build makes the table of all schedules from that folder.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "shaders/result_tile.h"
#include "shaders/target_facts.h"

namespace reprise::shaders {

/// Four columns from 4 * vec, or with Gemm::b_along_k() one column.
struct Column {
  Value vec;  // the vector of columns, or the column
  Index at;   // as the Gemm means it
};

/// Rows of A and C are counted by m, columns of B and C by n. Coordinates are I32 and may lie past
/// the end: loads then read the last row or column. Columns come in vectors of 4.
class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual kernel::Builder& builder() = 0;

  /// Whether consecutive elements of A differ in k, not in m; of B in k, not in n.
  virtual bool a_along_k() const = 0;
  virtual bool b_along_k() const = 0;
  /// Where a row of A lies, and a column or four columns of B: computed before the loops over k.
  virtual Index row(Value m) = 0;
  virtual Column column(Value n) = 0;

  /// Writes the loops over k and calls `body` in the innermost one.
  virtual Status k_loop(const KStepBody& body) = 0;
  /// The row of A at every k of the step.
  virtual Result<Values> load_a(const Index& row, const KStep& step) = 0;
  /// Four columns of B at the k-th value of the step (which may differ by invocation), or if
  /// b_along_k() one column at every k of the step.
  virtual Result<Values> load_b(const Column& column, const KStep& step, Value k) = 0;

  /// The same for units of a whole workgroup, whose invocations load different parts of a block of
  /// Tile::step values of k for all of them: the row of A at the four k from 4 * quad; four columns
  /// of B at `k`, or if b_along_k() one column at the four k from 4 * k. Zero past the end of k.
  virtual Result<Values> load_a_block(const Index& row, Value quad) = 0;
  virtual Result<Values> load_b_block(const Column& column, Value k) = 0;
  /// The blocks of Tile::step values of k that this unit sums: the number of the first one, how
  /// many there are, and the loop over them, which counts from 0. If there are any, `first` runs
  /// once, then `body` for each.
  virtual Value first_k_block() = 0;
  virtual Value k_block_count() = 0;
  virtual Status k_blocks(const std::function<Status()>& first,
                          const std::function<Status(Value i)>& body) = 0;
};

/// Sizes that a choice depends on; representative ones where they are dynamic.
struct GemmSize {
  double m = 1, n = 1, k = 1, batch = 1;
  double a_loads = 1;    // of one row for 4 values of k: 1 if they are consecutive, else 4
  double unrolled = 4;   // values of k that the body of a loop covers
  bool dynamic = false;  // a row's index is divided by dims that the driver does not know
  bool half = false;     // the elements of both operands are fp16 values
  bool splits = false;   // m, n and batch are constants, so that partial sums have a bounded size
};

class Schedule;

/// A schedule with its parameters: what one unit of work computes.
struct Tile : TileShape {
  const Schedule* schedule = nullptr;
  int own = 1;              // rows or columns of one invocation, as the schedule means it
  int step = 4;             // values of k that a workgroup loads at once
  MatrixShape matrix = {};  // of the operations that it uses
  int slices = 1;           // of a step, each summed by invocations of its own
  bool fma = false;         // explicit fused multiply-adds
  double cost = 0;          // estimated time; comparable within one Gemm

  std::string describe() const;
};

/// One tile of one contraction, in the kernel that computes it.
struct TileWork {
  Gemm& gemm;
  ResultTile& result;
  const Tile& tile;
  TileOrigin origin;
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual const char* name() const = 0;
  /// Tiles worth considering on devices that satisfy the predicate; none if it cannot run there.
  virtual std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& device) const = 0;
  virtual Status write(const TileWork& work) const = 0;
};

/// All schedules.
std::span<const Schedule* const> schedules();
/// Adds schedules of the application's own, which outlive all compilations. Call before the first
/// one: afterwards Code::Usage. Not thread-safe.
Status add_schedules(std::span<const Schedule* const> more);
/// All tiles of all schedules, cheapest first: a pure function of its arguments, never empty.
std::vector<Tile> candidates(const GemmSize& size, const TargetFacts& device);

// --- shared by schedules ---
/// Estimated time on a GPU: `steps` in turn, in each of which every invocation does `work`
/// multiply-adds or what costs as much.
double gpu_time(double workgroups, double invocations, double steps, double work);
/// How many parts K may be split into for a tile of a GPU that sums `blocks` blocks of K in each of
/// `workgroups` workgroups: 1, and more where the workgroups leave cores idle.
std::vector<int> k_splits(const GemmSize& size, double workgroups, double blocks);
/// The cost of a tile whose K is split, from the estimated time of the launch that makes the parts.
double split_time(double parts, const GemmSize& size, int splits);
/// The cost of a load from memory, in multiply-adds of a GPU.
inline constexpr double kGpuLoad = 30;
/// `count` neighbouring rows of A from `first`, and columns of B.
std::vector<Index> gemm_rows(Gemm& gemm, Value first, int count);
std::vector<Column> gemm_columns(Gemm& gemm, Value first, int count);
/// A in a step, by row.
Result<std::vector<Values>> load_a_rows(Gemm& gemm, const std::vector<Index>& rows,
                                        const KStep& step);

}  // namespace reprise::shaders
