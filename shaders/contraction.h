// Kernel templates for contractions, computed as GEMMs: C[m, n] = sum over k of A[m, k] * B[k, n].
//
// A Gemm is the problem, a MatMul or a convolution as an implicit GEMM (codegen/lower): it knows
// where elements of A and B lie, and loads them. A Schedule is a kernel template: it lists the
// tiles of C that one unit of work may compute, and writes the code of one tile. Every schedule
// works for every Gemm, on every backend.
//
// A is M x K, B is K x N and C is M x N, once per element of the batch. A Tile says how many rows
// of C (M) and columns of C (N) a unit of work computes and, where a workgroup loads blocks of the
// operands, how many values of k a block has.
//
// To add a schedule, write gemm/NAME.cpp, which defines `const Schedule& NAME_schedule()`. The
// build generates the table of all schedules from the names in that folder.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/target/device_costs.h"
#include "codegen/target/target_facts.h"
#include "runtime/plan/packing.h"
#include "shaders/operand.h"
#include "shaders/result_tile.h"

namespace reprise::shaders {

/// A vector of columns of B: the four columns from 4 * vec or, if Gemm::b_along_k(), one column.
struct Column {
  Value vec;  // the number of the vector, or of the column
  Index at;   // where it lies; only the Gemm interprets this
};

struct BlockScale {
  Val scale;
  Val zero;
  Val minimum;
};

/// The sizes of a GEMM, for schedules that know which rows, columns and values of k exist.
struct GemmExtent {
  Value m, n, k;
};

/// The operands of a GEMM. m counts rows of A and C, n counts columns of B and C. Coordinates are
/// I32 and may lie past the end: loads then read the last row or column. Columns come in vectors
/// of 4.
class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual kernel::Builder& builder() = 0;

  /// What is known of the operands, in kernels that ask. Elements that are loaded by the plain form
  /// must exist: it does not clamp, nor zero what is past the end of K.
  virtual Operand a() { return {}; }
  virtual Operand b() { return {}; }
  /// The operands as views, if they have such a form. Adds parameters to the kernel.
  virtual std::optional<ViewedOperand> viewed_a() { return std::nullopt; }
  virtual std::optional<ViewedOperand> viewed_b() { return std::nullopt; }
  /// Runs the body for each tile of this workgroup: once, unless the kernel is persistent. There it
  /// is a loop, and nothing else may ask for the unit's place or batch. Each role has a loop of its
  /// own.
  virtual Status each_tile(const std::function<Status(const TileOrigin& origin)>& body) = 0;
  /// Runs each body as what one of the kernel's roles does. Nothing may follow.
  virtual Status run_roles(std::span<const std::function<Status()>> bodies) = 0;
  /// Whether neighbouring elements in memory differ in k: those of A (else in m), of B (else in n).
  virtual bool a_along_k() const = 0;
  virtual bool b_along_k() const = 0;
  /// Where a row of A or a vector of columns of B lies. Call these before the loops over k. `n`
  /// counts vectors of columns, or columns if b_along_k().
  virtual Index row(Value m) = 0;
  virtual Column column(Value n) = 0;

  /// Whether elements of B may have more digits than the 16-bit type of B, to which matrix units'
  /// operands are rounded: a weight that is dequantised as it is loaded.
  virtual bool rounds_b() const { return false; }
  /// How many values of k share a scale, if B is a weight of 4-bit or 8-bit integers with a scale
  /// for each block of K, and K is a multiple of it. 0: any other B.
  virtual int64_t b_block() const { return 0; }
  /// The scales of four columns, their zero points (I32; null: 0), and what is added to integers
  /// less zero points, times the scale (F32; null: 0), for the values of k from
  /// step * length, of which there are `length` in one block.
  virtual Result<BlockScale> load_b_scale(const Column& column, Value step, int64_t length);
  /// The integers of neighbouring columns less their zero points, as F32 vectors of four columns,
  /// at the eight k from 8 * octet. `zeros` has one for each column, or nothing.
  virtual Result<std::vector<Values>> load_b_octet(std::span<const Column> columns, Value octet,
                                                   std::span<const Val> zeros);

  /// Writes the loops over k and calls `body` in the innermost one.
  virtual Status k_loop(const KStepBody& body) = 0;
  /// A row of A at every k of the step.
  virtual Result<Values> load_a(const Index& row, const KStep& step) = 0;
  /// Four columns of B at the k-th value of the step, where k may differ by invocation. If
  /// b_along_k(), one column at every k of the step; `k` is then ignored.
  virtual Result<Values> load_b(const Column& column, const KStep& step, Value k) = 0;

  // For tiles of a whole workgroup, whose invocations together load a block of Tile::step values of
  // k. Past the end of K these loads give zero; `whole`: all of the block is below it.
  /// A row of A at the four k from 4 * quad.
  virtual Result<Values> load_a_block(const Index& row, Value quad, bool whole) = 0;
  /// Four columns of B at `k` or, if b_along_k(), one column at the four k from 4 * k.
  virtual Result<Values> load_b_block(const Column& column, Value k, bool whole) = 0;
  /// Whether all blocks are whole.
  virtual bool whole_k_blocks() const = 0;
  virtual GemmExtent extent() = 0;
  /// Whether B has all columns of each tile.
  virtual bool whole_columns() const { return false; }
  /// The first block of Tile::step values of K that this unit (or workgroup of a cluster) sums, and
  /// the number of its blocks.
  virtual Value first_k_block() = 0;
  virtual Value k_block_count() = 0;
  /// Writes a branch whose bodies load elements. The condition is the same in the whole workgroup.
  virtual Status branch(Val condition, const std::function<Status()>& then,
                        const std::function<Status()>& otherwise) = 0;
  /// The loop over these blocks. If there is a block, calls `first` once before the loop.
  virtual Status k_blocks(const std::function<Status()>& first,
                          const std::function<Status(Value i)>& body) = 0;
};

/// What the choice of a tile depends on. A dynamic size has a representative value here.
struct GemmSize {
  double m = 1, n = 1, k = 1, batch = 1;
  double a_loads = 1;     // loads of a row for 4 values of k: 1 if they are consecutive, else 4
  double b_loads = 1;     // the same of B, for 4 columns, or for 4 values of k if b_along_k()
  double a_prologue = 0;  // instructions of A's prologue for a row and 4 values of k
  double b_prologue = 0;  // instructions of B's prologue for 4 columns
  double unrolled = 4;    // values of k in the unrolled body of the innermost loop
  bool dynamic = false;   // finding a row takes divisions by dims that are unknown to the driver
  /// What matrix units may multiply: values of one 16-bit type, or F32 as split products.
  std::optional<MmaTypes> mma = std::nullopt;
  double b_block = 0;  // Gemm::b_block()
  int b_bits = 4;      // of the integers, if there are blocks
  /// An operand that can be copied as it is.
  struct Copies {
    bool along_k = false;  // neighbours in memory differ in k, else in m or n
    int elements = 8;      // of a copy of 16, 8 or 4 bytes
    int element_bytes = 2;
    int bytes() const { return elements * element_bytes; }
  };
  std::optional<Copies> a_copies = std::nullopt, b_copies = std::nullopt;
  /// The operands have views, and elements of this type (F16 or BF16).
  std::optional<kernel::Ty> viewed = std::nullopt;
  /// Not all operands have views: those that have none, which a team may convert.
  struct Converted {
    bool a = false, b = false;
    bool b_along_k = false;  // vectors of B have neighbouring values of k
  };
  std::optional<Converted> converted = std::nullopt;
  bool constant_result =
      false;  // m, n and batch are constants, so that partial sums have a bounded size
};

/// The type of the operands of matrix units in shared memory.
inline kernel::Ty operand_type(const MmaTypes& types) {
  if (types == kSplitMma) return kernel::Ty::F32;
  return types == kBfloatMma ? kernel::Ty::BF16 : kernel::Ty::F16;
}
/// For so many values of k, the error bound of split products is that of F32 (semantics.md).
inline constexpr double kLeastSplitDepth = 32;

class Schedule;

/// A schedule with its parameters: what one unit of work computes. TileShape has the tile's M and
/// N.
struct Tile : TileShape {
  const Schedule* schedule = nullptr;
  int per_invocation = 1;  // rows or columns of one invocation, or rows of a subgroup's matrices
  int step = 4;            // the tile's K: values of k that a workgroup loads at once
  MmaConfig matrix = {};   // of one cooperative matrix operation
  int stages = 0;          // blocks of operands in shared memory, if it says so
  int slices = 1;          // parts of a step, each summed by invocations of its own
  bool fma = false;        // whether multiply-adds are explicitly fused
  GemmSize::Converted converted = {};  // operands that a team loads, converts and stores
  double cost = 0;                     // estimated time, comparable between tiles for one GemmSize

  std::string describe() const;
};

/// One tile of one contraction, in the kernel that computes it. Persistent kernels have no origin;
/// Gemm::each_tile() gives those of their tiles.
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
  /// Tiles worth considering on such devices; none if the schedule cannot run there.
  virtual std::vector<Tile> tiles(const GemmSize& size, const TargetFacts& device) const = 0;
  /// Writes the code that computes one tile.
  virtual Status write(const TileWork& work) const = 0;
  /// The form in which write() reads a B that is a weight, whose elements have so many bits if they
  /// are fewer than 8, else 0. The Gemm loads elements of any form; one that is not the default's
  /// costs it more instructions, so a schedule that chooses one copies or loads it itself. Its
  /// first axis is the batch, the others are K and N in the order of `b`.
  virtual plan::Packing packing(const plan::MatrixShape& b, int64_t bits, const Tile& tile) const;
};

/// All schedules.
std::span<const Schedule* const> schedules();
/// Adds schedules of an application. They must outlive all compilations. After the first
/// compilation this fails with Code::Usage. Not thread-safe.
Status add_schedules(std::span<const Schedule* const> more);
/// All tiles of all schedules, cheapest first: a pure function of its arguments, never empty. If
/// the first tile splits K, the second is the cheapest that does not, so that autotuning measures
/// both.
std::vector<Tile> candidates(const GemmSize& size, const TargetFacts& device);

// --- shared by schedules ---
/// The default of Schedule::packing(): the columns of a tile lie side by side.
plan::Packing columns_in_tiles(const plan::MatrixShape& b, int64_t bits, const Tile& tile);
/// Estimated time on a GPU of `steps` dependent steps, in each of which every one of a workgroup's
/// `invocations` does `work`, and of which each takes at least `latency`. The unit of `work` is a
/// multiply-add.
double gpu_time(double workgroups, double invocations, double steps, double work,
                double latency = kGpuCosts.latency);
/// The instructions in the prologues of a tile's loop body, which loads so many rows of A and
/// vectors of columns of B for 4 values of k.
double prologue_instructions(const GemmSize& size, double a_loads, double b_loads);
/// How many tiles of rows x columns C has, in all batches.
double tiles_of(const GemmSize& size, double rows, double columns);
/// Adds a tile of a GPU and, if so few workgroups leave cores idle, the cheapest one that splits K.
/// `workgroups`: of the tile without splits. `time_of(splits)`: the estimated time of the launch
/// that sums the parts.
void add_with_splits(std::vector<Tile>& out, Tile tile, const GemmSize& size, double workgroups,
                     const std::function<double(int splits)>& time_of);
/// `count` neighbouring rows of A, or vectors of columns of B, from `first`.
std::vector<Index> gemm_rows(Gemm& gemm, Value first, int count);
std::vector<Column> gemm_columns(Gemm& gemm, Value first, int count);
/// Each of these rows of A at every k of the step.
Result<std::vector<Values>> load_a_rows(Gemm& gemm, const std::vector<Index>& rows,
                                        const KStep& step);

}  // namespace reprise::shaders
