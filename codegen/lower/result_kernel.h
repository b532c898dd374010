// A kernel whose units of work compute tiles of an anchor's result: where a unit lies, guards, and
// the fused epilogue.
#pragma once

#include "codegen/lower/lower.h"
#include "shaders/result_tile.h"

namespace reprise::lower {

using shaders::Values;

/// Dtypes that contractions read; they accumulate in F32.
inline bool is_gemm_float(DType t) {
  return t == DType::F32 || t == DType::F16 || t == DType::BF16;
}

/// Index of an operand of a MatMul with these batch dims, which broadcast: its two last
/// coordinates are given.
Index operand_index(const graph::Graph& g, const Shape& operand, const Shape& batches,
                    const Index& batch, const Expr& row, const Expr& column);

/// Loads of four elements of an operand along its last axis, or else along the one before, counted
/// on a kernel that is thrown away. `along`, `other`: sizes of the two axes.
int count_loads(const graph::Graph& g, const Group& group, graph::ValueId operand, bool along_last,
                const Expr& along, const Expr& other);

/// Results of `m` rows and `n` columns, as many as `batch` has elements.
struct ResultShape {
  Expr m, n;
  Shape batch = {};
  bool wide_n = false;  // columns of a result are consecutive, and a multiple of 4
};

/// Where a unit of work lies.
struct WorkUnit {
  shaders::TileOrigin origin;
  Expr batch;      // linear
  Value batch_at;  // the same
  Value split;     // of K
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
  const graph::Graph& graph() const { return g_; }
  const Group& group() const { return group_; }
  kernel::Builder& builder() { return b_; }
  Evaluator& evaluator() { return ev_; }
  const ResultShape& shape() const { return shape_; }
  /// Whether tiles have no rows past the last one, or no columns.
  bool exact_rows() const { return exact_rows_; }
  bool exact_columns() const { return exact_columns_; }

  /// A coordinate below `end`: past it, the last one.
  Expr clamped(Value at, const Expr& end, bool exact);
  Expr clamped_row(Value at) { return clamped(at, shape_.m, exact_rows_); }
  Expr clamped_column(Value at) { return clamped(at, shape_.n, exact_columns_); }
  /// The first of four columns that are a vector.
  Expr clamped_vec(Value vec);
  /// The four columns from 4 * vec: the first where they are a vector, or else each.
  Index clamped_columns(Value vec);

  /// Loops over `length` values of K: four at a time, then the rest one by one.
  Status loop_over_k(const Expr& length, const shaders::KStepBody& body);
  /// The values of K of a step: the lanes of a vector if there are several.
  Expr k_of(const shaders::KStep& step) const {
    return step.count > 1 ? step.first + ev_.lane() : step.first;
  }
  /// The lanes of a value, as F32.
  Result<Values> scalars(Result<Val> v);

 private:
  Status write_unit(Value id, const Expr& tiles, const shaders::TileShape& tile, const Work& work);

  const graph::Graph& g_;
  const Group& group_;
  ResultShape shape_;
  kernel::Builder b_;
  Evaluator ev_;
  bool exact_rows_ = false, exact_columns_ = false;
};

/// How a unit stores its tile of the result.
class StoredTile final : public shaders::ResultTile {
 public:
  /// Index of the anchor's result at a row and a column.
  using ResultIndex = std::function<Index(const Expr& row, const Expr& column)>;
  /// What becomes of four columns of sums before the epilogue.
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
  Status loop(Value end, int64_t most, const std::function<Status(Value)>& body) override {
    return ev_.for_loop(b_.i32(0), end, b_.i32(1), most, body);
  }

 private:
  ResultKernel& k_;
  kernel::Builder& b_;
  Evaluator& ev_;
  ResultIndex index_;
  Finish finish_;
};

}  // namespace reprise::lower
