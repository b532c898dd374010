// A kernel whose units of work compute tiles of an anchor's result: where a unit lies, guards, and
// the fused epilogue.
#pragma once

#include "codegen/lower/lower.h"
#include "shaders/result_tile.h"

namespace reprise::lower {

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

class ResultKernel : public virtual shaders::ResultTile {
 public:
  kernel::Builder& builder() override { return b_; }
  kernel::Val row_count() override { return ev_.value(m_); }
  Status guard_row(kernel::Val row, const Body& body) override;
  Status guard_columns(kernel::Val vec, const Body& body) override;
  Status store(kernel::Val row, kernel::Val vec, kernel::Val four) override;
  void loop(kernel::Val end, int64_t most, const std::function<void(kernel::Val)>& body) override;

 protected:
  ResultKernel(const graph::Graph& g, const Group& group, const TargetFacts& target);

  /// Writes the work of every unit and finishes the kernel. m_, n_ and batch_ are set.
  using Work = std::function<Status(kernel::Val row, kernel::Val column_tile)>;
  Result<Lowered> write_units(const shaders::TileShape& tile, std::string schedule,
                              const Work& work);
  /// Called in the kernel, once the unit's batch is known, before anything is loaded.
  virtual void begin(const Expr& batch) = 0;
  /// Index of the anchor's result.
  virtual Index result_index(const Expr& row, const Expr& column) = 0;

  /// A coordinate below `end`: past it, the last one.
  Expr clamped(kernel::Val at, const Expr& end, bool exact);
  Expr clamped_row(kernel::Val at) { return clamped(at, m_, exact_rows_); }
  Expr clamped_column(kernel::Val at) { return clamped(at, n_, exact_columns_); }
  Expr clamped_vec(kernel::Val at) { return clamped(at, Expr::floordiv(n_, 4), exact_columns_); }
  /// Loops over the positions of a sum: four at a time, then the rest one by one. `step` reads at_
  /// and depth_.
  Status loop_over_k(const Expr& positions, const std::function<Status(int depth)>& step);
  /// The position of a step, or its positions if there are four.
  Expr step_position() const { return depth_ == 4 ? at_ + ev_.lane() : at_; }
  /// The lanes of a value, as F32.
  Result<Values> scalars(Result<kernel::Val> v);

  const graph::Graph& g_;
  const Group& group_;
  const TargetFacts& target_;
  kernel::Builder b_;
  Evaluator ev_;
  Expr m_, n_;           // rows and columns of one result
  Shape batch_;          // of results
  bool wide_n_ = false;  // columns of the result are consecutive, and a multiple of 4
  kernel::Val column_tile_;
  kernel::Val batch_at_;  // linear
  Expr at_;               // first position of the current step of a sum
  int depth_ = 1;         // its positions

 private:
  Status write_unit(kernel::Val id, const Expr& tiles, const shaders::TileShape& tile,
                    const Work& work);

  bool exact_rows_ = false, exact_columns_ = false;
};

}  // namespace reprise::lower
