// A kernel whose units of work compute tiles of an anchor's result. It locates the unit's tile,
// guards its edges, and fuses the epilogue into the stores.
#pragma once

#include "codegen/lower/launch/lowered.h"
#include "shaders/result_tile.h"

namespace reprise::lower {

using shaders::Values;

/// Dtypes that contractions read; they accumulate in F32.
inline bool is_gemm_float(DType t) {
  return t == DType::F32 || t == DType::F16 || t == DType::BF16;
}

/// The index of an operand of a MatMul whose batch dims broadcast to `batches`. `batch` is an index
/// into these; `row` and `column` are the last two coordinates.
Index operand_index(const graph::Graph& g, const Shape& operand, const Shape& batches,
                    const Index& batch, const Expr& row, const Expr& column);

/// What it takes to read four elements of an operand.
struct OperandCost {
  int loads = 0;
  int instructions = 0;  // of the prologue, beyond those of a view
};
/// The cost of four elements along the operand's last axis or, if not `along_last`, along the axis
/// before it. Counted on a scratch kernel. `along` and `other` are the sizes of the two axes.
OperandCost operand_cost(const graph::Graph& g, const Group& group, graph::ValueId operand,
                         bool along_last, const Expr& along, const Expr& other);

/// A batch of results of m rows and n columns.
struct ResultShape {
  Expr m, n;
  Shape batch = {};
  bool vector_n = false;  // columns are consecutive in memory, and n is a multiple of 4
};

/// Lines of a matrix in memory, of the unit's batch, in elements.
struct MatrixLines {
  Expr first, stride;    // the first element, and the distance of lines
  Expr elements, lines;  // of a line, and their number
};

/// Where the tile of a unit of work lies.
struct WorkUnit {
  shaders::TileOrigin origin;
  Expr batch;      // linear index of the batch
  Value batch_at;  // the same as a value
  Value split;     // the part of K that the unit sums
};

class ResultKernel {
 public:
  /// `name`: the kernel's, if it is not the group's only one.
  ResultKernel(const graph::Graph& g, const Group& group, const TargetFacts& target,
               ResultShape shape, const std::string& name = {});

  /// Writes the work of every unit and finishes the kernel.
  using Work = std::function<Status(const WorkUnit& unit)>;
  Result<Lowered> write_units(const shaders::TileShape& tile, std::string schedule,
                              const Work& work);

  // --- inside write_units() ---
  /// Runs the body for each unit of this workgroup: once, with the unit that `work` was given,
  /// unless the kernel is persistent. There it is a loop that changes this unit.
  Status each_unit(const std::function<Status()>& body);
  const graph::Graph& graph() const { return g_; }
  const Group& group() const { return group_; }
  kernel::Builder& builder() { return b_; }
  Evaluator& evaluator() { return ev_; }
  const ResultShape& shape() const { return shape_; }
  /// Whether no tile has rows past the last one, or columns past the last one.
  bool exact_rows() const { return exact_rows_; }
  bool exact_columns() const { return exact_columns_; }

  /// The view of such matrices, without a buffer; `batch` is the unit's. Its last dimension counts
  /// batches if they have matrices of their own. Nothing if copies of boxes need more alignment.
  std::optional<TensorView> view_of(const MatrixLines& m, const Expr& batch, uint32_t bytes);
  const WorkUnit& unit() const { return unit_; }

  /// The coordinate `at`, or the last one if `at` is not below `end`. `exact`: it always is.
  Expr clamped(Value at, const Expr& end, bool exact);
  Expr clamped_row(Value at) { return clamped(at, shape_.m, exact_rows_); }
  Expr clamped_column(Value at) { return clamped(at, shape_.n, exact_columns_); }
  /// The first of the four columns from 4 * vec, clamped as a vector.
  Expr clamped_vec(Value vec);
  /// The four columns from 4 * vec: only the first if `vector_n`, else each of them.
  Index clamped_columns(Value vec);

  /// Loops over `length` values of K: four at a time, then the remainder one by one.
  Status loop_over_k(const Expr& length, const shaders::KStepBody& body);
  /// The values of k of a step; the lanes of a vector if there are several.
  Expr k_of(const shaders::KStep& step) const {
    return step.count > 1 ? step.first + ev_.lane() : step.first;
  }
  /// The lanes of a value, as F32.
  Result<Values> scalars(Result<Val> v);

 private:
  Status write_unit(Value id, const Expr& tiles, const shaders::TileShape& tile, const Work& work);
  Status write_persistent(Value id, const Expr& tiles, const Expr& groups,
                          const shaders::TileShape& tile, const Work& work);
  void locate(Value unit);

  const graph::Graph& g_;
  const Group& group_;
  ResultShape shape_;
  kernel::Builder b_;
  Evaluator ev_;
  bool exact_rows_ = false, exact_columns_ = false;
  WorkUnit unit_;
  /// The loop of a persistent kernel.
  struct Loop {
    shaders::TileShape tile;
    Value first, end, step;
    Expr iterations = 0;
  };
  std::optional<Loop> loop_;
};

/// Stores the tile of a unit of work, with the group's epilogue.
class StoredTile : public shaders::ResultTile {
 public:
  /// The index of the anchor's result at a row and a column.
  using ResultIndex = std::function<Index(const Expr& row, const Expr& column)>;
  /// Transforms the sums of the four columns from 4 * vec before the epilogue.
  using Finish = std::function<Result<Value>(Value vec, Value four)>;
  StoredTile(ResultKernel& k, ResultIndex index, Finish finish = nullptr)
      : k_(k),
        b_(k.builder()),
        ev_(k.evaluator()),
        index_(std::move(index)),
        finish_(std::move(finish)) {}

  Value row_count() override { return ev_.value(k_.shape().m); }
  Status guard_row(Value row, const Body& body) override;
  Status guard_columns(Value vec, const Body& body) override;
  Status store(Value row, Value vec, Value four) override;
  std::optional<shaders::ViewedResult> viewed() override;
  Result<Value> stored_form(Value row, Value vec, Value four) override;
  Status loop(Value end, int64_t most, const std::function<Status(Value)>& body) override {
    return ev_.for_loop(b_.i32(0), end, b_.i32(1), most, body);
  }

 protected:
  /// Stores one column, or a vector of four.
  virtual Status put(const Index& index, Val value, int lanes) {
    return store_result(ev_, k_.group(), index, value, lanes);
  }

 private:
  ResultKernel& k_;
  kernel::Builder& b_;
  Evaluator& ev_;
  ResultIndex index_;
  Finish finish_;
};

}  // namespace reprise::lower
