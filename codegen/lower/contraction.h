// A MatMul or convolution as a product for the schedules of shaders/contraction.h: where its rows
// and columns lie, packed weights, and the fused epilogue.
#pragma once

#include <optional>

#include "codegen/lower/lower.h"
#include "shaders/contraction.h"

namespace reprise::lower {

Result<Lowered> lower_matmul(const graph::Graph& g, const Group& group, const Target& target,
                             size_t choice);
Result<Lowered> lower_conv(const graph::Graph& g, const Group& group, const Target& target,
                           size_t choice);

/// Whether a group is a product of fp16 tensors, which cooperative matrices multiply.
bool is_half_product(const graph::Graph& g, const Group& group);
/// Dtypes that products read; they accumulate in F32.
inline bool is_product_float(DType t) {
  return t == DType::F32 || t == DType::F16 || t == DType::BF16;
}

class Contraction : public shaders::Product {
 public:
  kernel::Builder& builder() override { return b_; }
  kernel::Val row_count() override { return ev_.value(m_); }
  kernel::Val block_count() override { return ev_.value(Expr::ceildiv(k_, tile_.step)); }
  Status blocks(const Body& first, const std::function<Status(kernel::Val)>& body) override;
  Status guard_row(kernel::Val row, const Body& body) override;
  Status guard_columns(kernel::Val vec, const Body& body) override;
  Status store(kernel::Val row, kernel::Val vec, kernel::Val four) override;
  void loop(kernel::Val end, int64_t most, const std::function<void(kernel::Val)>& body) override;

 protected:
  Contraction(const graph::Graph& g, const Group& group, const Target& target);

  /// Writes a product by the tile numbered `choice` and finishes the kernel. m_, n_ and batch_ are
  /// set; `size` says the rest.
  Result<Lowered> write(shaders::ProductSize size, size_t choice);
  /// Called in the kernel, once the unit's batch is known, before anything is loaded.
  virtual void begin(const Expr& batch) = 0;
  /// Index of the anchor's result.
  virtual Index result_index(const Expr& row, const Expr& column) = 0;

  /// A coordinate below `end`: past it, the last one.
  Expr clamped(kernel::Val at, const Expr& end, bool exact);
  Expr clamped_row(kernel::Val at) { return clamped(at, m_, exact_rows_); }
  Expr clamped_column(kernel::Val at) { return clamped(at, n_, exact_columns_); }
  Expr clamped_vec(kernel::Val at) { return clamped(at, Expr::floordiv(n_, 4), exact_columns_); }

  /// Four columns from 4 * vec at row k of a constant that is packed into tiles of columns:
  /// [batch][tile of columns][depth][columns of a tile].
  kernel::Val load_packed(graph::ValueId constant, const Expr& depth, kernel::Val vec,
                          kernel::Val k);
  PackedOperand packing(const Lowered& out, graph::ValueId constant) const;
  /// The lanes of a value, as F32.
  Result<Values> scalars(Result<kernel::Val> v);

  /// What `load` gives at the four positions of the sum from 4 * quad, zero past the end. It is
  /// asked for four lanes of them where they are a vector, else for one after another.
  using LoadAt = std::function<Result<kernel::Val>(const Expr& position, int lanes)>;
  Result<Values> four_positions(kernel::Val quad, bool vector, const LoadAt& load);
  /// The same for what depends on one position.
  Result<Values> one_position(kernel::Val position, const LoadAt& load);

  const graph::Graph& g_;
  const Group& group_;
  const Target& target_;
  kernel::Builder b_;
  Evaluator ev_;
  Expr m_, n_;           // rows and columns of one product
  Expr k_;               // positions of its sum
  Shape batch_;          // of products
  bool wide_n_ = false;  // columns of the result are consecutive, and a multiple of 4
  shaders::Tile tile_;   // once chosen
  kernel::Val column_tile_;
  kernel::Val batch_at_;  // linear

 private:
  Status write_unit(kernel::Val id, const Expr& tiles, const Expr& row_tiles,
                    const Expr& column_tiles);

  /// Values that are zero where `inside` does not hold.
  Values or_zero(kernel::Val inside, Values values);

  bool exact_rows_ = false, exact_columns_ = false, exact_steps_ = false;
};

}  // namespace reprise::lower
