// Kernel templates, the part that all of them share: the tile of rows x columns of a result that
// one unit of work computes, and how it is stored. It does not depend on the operands.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/kernel/build/builder.h"
#include "codegen/target/target_facts.h"
#include "runtime/base/tensor_view.h"
#include "runtime/expr/expr.h"

namespace reprise::shaders {

using kernel::Val;
using kernel::Value;

/// Coordinates of an element. Only what provides the operands interprets them.
using Index = std::vector<Expr>;
/// F32 scalars.
using Values = std::vector<Val>;

/// What computes a tile: one invocation, one subgroup (which is then the whole workgroup), or a
/// workgroup with shared memory.
enum class Unit : uint8_t { Invocation, Subgroup, Workgroup };

/// The tile of the result that one unit of work computes: tile_m x tile_n of a GEMM.
struct TileShape {
  int rows = 1, columns = 4;
  Unit unit = Unit::Invocation;
  uint32_t workgroup = 64;     // invocations of a workgroup
  uint32_t subgroup_size = 0;  // that the kernel requires; 0: any
  /// The number of parts that K is split into, each summed by a unit of its own. If it is not 1, a
  /// unit stores partial sums, and a second launch adds them.
  int splits = 1;
  /// The index of the batch is a symbol of its own, so that operands may have views in which it
  /// counts a dimension.
  bool batch_is_symbol = false;
  /// The most workgroups (or clusters) of a persistent kernel, each of which computes several tiles
  /// one after another (Gemm::each_tile); 0: one tile for each unit.
  int groups = 0;
  /// The workgroups of a cluster compute a tile together: each has some of its rows, or sums a part
  /// of K. At most one of these is not 1. Of persistent kernels.
  int cluster_rows = 1, cluster_parts = 1;
  int cluster() const { return cluster_rows * cluster_parts; }
  /// Rows of tiles that are computed together, column after column, so that the tiles of a moment
  /// share operands in the cache. Of persistent kernels.
  int band = 1;
};

/// Subgroup size of the tiles for CPU-type devices, whose lanes share loads by shuffles with a
/// constant lane.
inline constexpr int kCpuLanes = 8;
bool has_cpu_subgroups(const TargetFacts& device);

/// Where the tile of a unit of work begins: its first row, its number along the columns, and its
/// batch.
struct TileOrigin {
  Value row, column_tile;
  Value batch = {};
};

/// What one iteration of the innermost loop over K covers: `count` values from `first` of K's
/// innermost axis, at each of `taps`. A tap is a position on K's other axes, those of a
/// convolution's window.
struct KStep {
  Expr first;
  int count = 1;
  std::vector<Index> taps = {Index{}};

  int depth() const { return count * static_cast<int>(taps.size()); }
};
using KStepBody = std::function<Status(const KStep& step)>;

/// The result as a tensor of which boxes may be stored (kernel::View): its dimensions count
/// columns, rows and, if `batched`, batches.
struct ViewedResult {
  TensorView tensor;  // without a box
  kernel::Ty type = kernel::Ty::F32;
  bool batched = false;
};

/// Stores a tile. Coordinates are I32; columns come in vectors of 4.
class ResultTile {
 public:
  virtual ~ResultTile() = default;

  /// Number of rows of the result.
  virtual Value row_count() = 0;
  using Body = std::function<Status()>;
  /// Runs the body only where the row exists, or the four columns from 4 * vec.
  virtual Status guard_row(Value row, const Body& body) = 0;
  virtual Status guard_columns(Value vec, const Body& body) = 0;
  /// Applies the epilogue to the four columns from 4 * vec of a row, converts and stores them. Call
  /// this inside both guards.
  virtual Status store(Value row, Value vec, Value four) = 0;
  /// The result as a view, if it has such a form. Adds parameters to the kernel.
  virtual std::optional<ViewedResult> viewed() { return std::nullopt; }
  /// As store(), but gives the four columns as the view's memory has them. Of viewed results.
  virtual Result<Value> stored_form(Value row, Value vec, Value four);
  /// for (i = 0; i < end; ++i), with at most `most` iterations. `end` may differ by invocation.
  virtual Status loop(Value end, int64_t most, const std::function<Status(Value i)>& body) = 0;
};

/// A longer epilogue, in instructions for four columns, is not unrolled over more than two rows.
inline constexpr size_t kMaxUnrolledEpilogue = 200;
/// Stores four columns of `rows` rows with unrolled code. The first row must exist.
Status store_rows(ResultTile& result, Value row, int rows, Value vec,
                  const std::function<Value(int row)>& four);
/// Stores four columns of the rows [first, first + end) in a loop, so that the epilogue is compiled
/// once. `end` is at most `count`.
Status store_chunk(ResultTile& result, Value first, Value vec, Value end, int count,
                   const std::function<Value(int row)>& four);

/// rows x columns private variables of one type, such as an invocation's accumulators. Their names
/// are `name` and a number.
class LocalGrid {
 public:
  /// Every lane of every variable is set to `start`. Without it they are uninitialised.
  LocalGrid(kernel::Builder& b, const std::string& name, kernel::Type type, int rows, int columns,
            std::optional<double> start);

  int rows() const { return rows_; }
  int columns() const { return columns_; }
  Value load(int row, int column = 0) { return b_.local_load(local(row, column)); }
  /// Four neighbouring scalars of a row as a vector.
  Value load_vector(int row, int column) {
    const auto at = [&](int c) { return load(row, column + c); };
    return b_.compose({at(0), at(1), at(2), at(3)});
  }
  void store(int row, int column, Val v) { b_.local_store(local(row, column), v); }

 private:
  int local(int row, int column) const {
    const int index = row * columns_ + column;
    return locals_[static_cast<size_t>(index)];
  }

  kernel::Builder& b_;
  int rows_, columns_;
  std::vector<int> locals_;
};

/// x * y + total, rounded once if `fma`, else after each operation.
Value multiply_add(kernel::Builder& b, Val x, Val y, Val total, bool fma);

// --- invocations and subgroups ---
/// The invocation's number in its workgroup, as I32.
Value local_index(kernel::Builder& b);
/// The invocation's lane in its subgroup, as I32.
Value lane_of(kernel::Builder& b);
/// The value of one lane, in every lane of the subgroup. A shuffle with a constant lane is nearly
/// free on CPU-type devices.
Value broadcast(kernel::Builder& b, Val v, int lane);

}  // namespace reprise::shaders
