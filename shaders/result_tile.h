// The rows x columns of a result that one unit of work computes: what every family of kernel
// templates stores through, whatever its operands are.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/kernel/builder.h"
#include "runtime/base/expr.h"
#include "shaders/target_facts.h"

namespace reprise::shaders {

using kernel::Val;
using kernel::Value;

/// Coordinates, as the operands mean them.
using Index = std::vector<Expr>;
/// F32 scalars.
using Values = std::vector<Val>;

/// What computes a tile: an invocation, a subgroup that is the workgroup, or a whole workgroup
/// that shares memory.
enum class Unit : uint8_t { Invocation, Subgroup, Workgroup };

/// What one unit of work computes.
struct TileShape {
  int rows = 1, columns = 4;  // of the result
  Unit unit = Unit::Invocation;
  uint32_t workgroup = 64;     // invocations
  uint32_t subgroup_size = 0;  // required; 0: any
  /// Parts of K that units of their own sum. Above 1 a tile is a partial sum, and a second launch
  /// adds the parts (split K).
  int splits = 1;
};

/// Lanes of the subgroups that tiles for CPU-type devices share loads in, by constant shuffles.
inline constexpr int kCpuLanes = 8;
bool has_cpu_subgroups(const TargetFacts& device);
/// Fewer units of work leave threads of a CPU-type device idle.
inline constexpr double kEnoughUnits = 8;

/// Where a unit of work lies: its first row, and its number among the tiles of a row.
struct TileOrigin {
  Value row, column_tile;
};

/// What one pass through the innermost loop over K covers: `count` values of K's innermost axis
/// from `first`, at each of `taps`, the positions of K's other axes (of a convolution's window).
struct KStep {
  Expr first;
  int count = 1;
  std::vector<Index> taps = {Index{}};

  int depth() const { return count * static_cast<int>(taps.size()); }
};
using KStepBody = std::function<Status(const KStep& step)>;

/// Coordinates are I32; columns come in vectors of 4.
class ResultTile {
 public:
  virtual ~ResultTile() = default;

  /// Number of rows of the result.
  virtual Value row_count() = 0;
  using Body = std::function<Status()>;
  /// Runs the body where the row exists, or the columns from 4 * vec.
  virtual Status guard_row(Value row, const Body& body) = 0;
  virtual Status guard_columns(Value vec, const Body& body) = 0;
  /// Finishes four columns from 4 * vec of a row, inside both guards: epilogue, conversion, stores.
  virtual Status store(Value row, Value vec, Value four) = 0;
  /// for (i = 0; i < end; ++i), at most `most` times. `end` may differ by invocation.
  virtual Status loop(Value end, int64_t most, const std::function<Status(Value i)>& body) = 0;
};

/// Stores four columns of `rows` rows, the first of which exists, each written out.
Status store_rows(ResultTile& result, Value row, int rows, Value vec,
                  const std::function<Value(int row)>& four);
/// Stores four columns of rows [first, first + end), in a loop so that the epilogue is compiled
/// once; `end` is at most `count`.
Status store_chunk(ResultTile& result, Value first, Value vec, Value end, int count,
                   const std::function<Value(int row)>& four);

/// rows x columns of private variables of one type, named `name` and a number: an invocation's
/// accumulators.
class LocalGrid {
 public:
  /// Every variable starts with this value in all lanes; without one it has no value yet.
  LocalGrid(kernel::Builder& b, const std::string& name, kernel::Type type, int rows, int columns,
            std::optional<double> start);

  int rows() const { return rows_; }
  int columns() const { return columns_; }
  Value load(int row, int column = 0) { return b_.local_load(local(row, column)); }
  /// Four scalars of a row, as a vector.
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

/// x * y + total, fused or rounded twice.
Value multiply_add(kernel::Builder& b, Val x, Val y, Val total, bool fma);

// --- invocations and subgroups ---
/// The invocation's number in its workgroup, as I32.
Value local_index(kernel::Builder& b);
/// The invocation's lane in its subgroup, as I32.
Value lane_of(kernel::Builder& b);
/// The value that a lane has, in every lane: next to nothing where the lane is a constant.
Value broadcast(kernel::Builder& b, Val v, int lane);

}  // namespace reprise::shaders
