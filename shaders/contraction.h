// Matrix products and whatever else sums products over one axis. A Product says what is multiplied
// (a MatMul, a convolution: codegen/lower); a Schedule says which part of the result a unit of work
// computes, and how. Every schedule works for every product, on every backend.
//
// Adding a schedule: a file of its own here, and a row in the table of schedules.cpp.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/device_facts.h"
#include "shaders/result_tile.h"

namespace reprise::shaders {

/// A product by rows, columns and positions of its sum. Coordinates are I32 and may lie past the
/// end: loads then read the last row or column. Columns come in vectors of 4.
class Product : public virtual ResultTile {
 public:
  /// Handles of what the loads in sum() read, prepared before the loops.
  virtual int row(kernel::Val at) = 0;
  /// The four columns from 4 * at; if right_along_k(), the one column `at`.
  virtual int column(kernel::Val at) = 0;
  /// Whether consecutive elements of the right operand are positions of the sum, not columns.
  virtual bool right_along_k() const = 0;

  /// Writes the loops over the sum and calls `step` in the body of each, with the number of
  /// positions that one call covers.
  virtual Status sum(const std::function<Status(int depth)>& step) = 0;
  /// In a step: the left operand's row at every position of the step.
  virtual Result<Values> left(int row) = 0;
  /// In a step: four columns at a position (which may differ by invocation), or if right_along_k()
  /// one column at every position.
  virtual Result<Values> right(int column, kernel::Val position) = 0;

  /// The same for units of a whole workgroup, whose invocations load different parts of a block of
  /// Tile::step positions for all of them: the left operand's row at the four positions from
  /// 4 * quad; the right operand's four columns at a position, or if right_along_k() one column at
  /// the four positions from 4 * position. Zero past the end of the sum.
  virtual Result<Values> left_at(int row, kernel::Val quad) = 0;
  virtual Result<Values> right_at(int column, kernel::Val position) = 0;
  /// Whether consecutive elements of the left operand are positions of the sum, not rows.
  virtual bool left_along_k() const = 0;
  /// Number of blocks of Tile::step positions, and the loop over them: if there are any, `first`
  /// once, then `body` for each.
  virtual kernel::Val block_count() = 0;
  virtual Status blocks(const std::function<Status()>& first,
                        const std::function<Status(kernel::Val block)>& body) = 0;
};

/// Sizes that a choice depends on; representative ones where they are dynamic.
struct ProductSize {
  double rows = 1, columns = 1, depth = 1, batch = 1;
  double left_loads = 1;  // of one row for 4 positions: 1 if they are consecutive, else 4
  double unrolled = 4;    // positions that the body of a loop covers
  bool dynamic = false;   // a row's index is divided by dims that the driver does not know
  bool half = false;      // the elements of both operands are fp16 values
};

class Schedule;

/// A schedule with its parameters: what one unit of work computes.
struct Tile : TileShape {
  const Schedule* schedule = nullptr;
  int own = 1;              // rows or columns of one invocation, as the schedule means it
  int step = 4;             // positions of the sum that a workgroup loads at once
  MatrixShape matrix = {};  // of the operations that it uses
  int slices = 1;           // of a step, each summed by invocations of its own
  bool fma = false;         // explicit fused multiply-adds
  double cost = 0;          // estimated time; comparable within one product

  std::string describe() const;
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual const char* name() const = 0;
  /// Tiles worth considering on devices that satisfy the predicate; none if it cannot run there.
  virtual std::vector<Tile> tiles(const ProductSize& size, const Predicate& device) const = 0;
  /// Writes the computation of the tile that begins at `row` and at the tile number `column`.
  virtual Status write(Product& product, const Tile& tile, kernel::Val row,
                       kernel::Val column) const = 0;
};

/// All schedules. Pure data.
std::span<const Schedule* const> schedules();
/// All tiles of all schedules, cheapest first: a pure function of its arguments, never empty.
std::vector<Tile> candidates(const ProductSize& size, const Predicate& device);

// --- shared by schedules ---
/// Estimated time on a GPU: `steps` in turn, in each of which every invocation does `work`
/// multiply-adds or what costs as much.
double gpu_time(double workgroups, double invocations, double steps, double work);
/// The cost of a load from memory, in multiply-adds of a GPU.
inline constexpr double kGpuLoad = 30;
/// The left operand of a step, by row handle.
Result<std::vector<Product::Values>> load_left(Product& product, const std::vector<int>& rows);

const Schedule& register_schedule();
const Schedule& cooperative_schedule();
const Schedule& gemv_schedule();
const Schedule& shared_schedule();
const Schedule& subgroup_columns_schedule();
const Schedule& subgroup_rows_schedule();

}  // namespace reprise::shaders
