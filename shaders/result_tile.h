// The rows x columns of a result that one unit of work computes: what every family of kernel
// templates stores through, whatever their operands are.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "codegen/kernel/builder.h"
#include "shaders/target_facts.h"

namespace reprise::shaders {

/// What computes a tile: an invocation, a subgroup that is the workgroup, or a whole workgroup
/// that shares memory.
enum class Unit : uint8_t { Invocation, Subgroup, Workgroup };

/// What one unit of work computes.
struct TileShape {
  int rows = 1, columns = 4;  // of the result
  Unit unit = Unit::Invocation;
  uint32_t workgroup = 64;     // invocations
  uint32_t subgroup_size = 0;  // required; 0: any
};

/// Lanes of the subgroups that tiles for CPU-type devices share loads in, by constant shuffles.
inline constexpr int kCpuLanes = 8;
bool has_cpu_subgroups(const TargetFacts& device);
/// Fewer units of work leave threads of a CPU-type device idle.
inline constexpr double kEnoughUnits = 8;

/// Coordinates are I32; columns come in vectors of 4.
class ResultTile {
 public:
  virtual ~ResultTile() = default;
  virtual kernel::Builder& builder() = 0;

  using Values = std::vector<kernel::Val>;  // F32 scalars
  /// Number of rows of the result.
  virtual kernel::Val row_count() = 0;
  using Body = std::function<Status()>;
  /// Runs the body where the row exists, or the columns from 4 * vec.
  virtual Status guard_row(kernel::Val row, const Body& body) = 0;
  virtual Status guard_columns(kernel::Val vec, const Body& body) = 0;
  /// Finishes four columns from 4 * vec of a row, inside both guards: epilogue, conversion, stores.
  virtual Status store(kernel::Val row, kernel::Val vec, kernel::Val four) = 0;
  /// for (i = 0; i < end; ++i), at most `most` times. `end` may differ by invocation.
  virtual void loop(kernel::Val end, int64_t most,
                    const std::function<void(kernel::Val i)>& body) = 0;
};

/// Stores four columns of `rows` rows, the first of which exists, each written out.
Status store_rows(ResultTile& result, kernel::Val row, int rows, kernel::Val vec,
                  const std::function<kernel::Val(int row)>& four);
/// Stores four columns of rows [first, first + end), in a loop so that the epilogue is compiled
/// once; `end` is at most `count`.
Status store_chunk(ResultTile& result, kernel::Val first, kernel::Val vec, kernel::Val end,
                   int count, const std::function<kernel::Val(int row)>& four);

// --- subgroups ---
/// The invocation's lane in its subgroup, as I32.
kernel::Val lane_of(kernel::Builder& b);
/// The value that a lane has, in every lane: next to nothing where the lane is a constant.
kernel::Val broadcast(kernel::Builder& b, kernel::Val v, int lane);

}  // namespace reprise::shaders
