// A MatMul or convolution as a Gemm for the schedules of shaders/contraction.h: where its rows
// and columns lie, and packed weights.
#pragma once

#include <optional>

#include "codegen/lower/result_kernel.h"
#include "shaders/contraction.h"

namespace reprise::lower {

Result<Lowered> lower_matmul(const graph::Graph& g, const Group& group, const TargetFacts& target,
                             size_t choice);
Result<Lowered> lower_conv(const graph::Graph& g, const Group& group, const TargetFacts& target,
                           size_t choice);

/// Whether a group is a contraction of fp16 tensors, which cooperative matrices multiply.
bool is_half_gemm(const graph::Graph& g, const Group& group);

/// A constant operand, which may be packed at load: of floats, or of 8 bits that a node of the
/// group dequantises.
struct ConstantOperand {
  graph::ValueId value = graph::kNone;
  const graph::Node* dequantize = nullptr;
};
std::optional<ConstantOperand> constant_operand(const graph::Graph& g, const Group& group,
                                                graph::ValueId v);

class Contraction : public ResultKernel, public shaders::Gemm {
 public:
  kernel::Val k_block_count() override { return ev_.value(Expr::ceildiv(k_, tile_.step)); }
  Status k_blocks(const Body& first, const std::function<Status(kernel::Val)>& body) override;
  Status store(kernel::Val row, kernel::Val vec, kernel::Val four) override;

 protected:
  using ResultKernel::ResultKernel;

  /// Writes the contraction by the tile numbered `choice` and finishes the kernel. m_, n_ and
  /// batch_ are set; `size` says the rest.
  Result<Lowered> write(shaders::GemmSize size, size_t choice);

  /// Four columns from 4 * vec at row k of a constant that is packed into tiles of columns:
  /// [batch][tile of columns][depth][columns of a tile].
  kernel::Val load_packed(graph::ValueId constant, const Expr& depth, kernel::Val vec,
                          kernel::Val k);
  /// Index of an element of the weight at a column of the result.
  using WeightIndex = std::function<Index(const Expr& column)>;
  /// Four columns from 4 * vec of a weight of 8 bits, loaded as `raw`, as F32. A scale that is the
  /// same at all positions along K is left to the result; see set_scale().
  Result<kernel::Val> dequantized(const graph::Node& n, kernel::Val raw, kernel::Val vec,
                                  const WeightIndex& index);
  /// Every result is multiplied by the scale of its column: that of the weight at `index`.
  void set_scale(const graph::Node* n, WeightIndex index);
  /// The kernel reads this constant in a packed form; its buffer and tile are filled in here.
  void pack(Lowered& out, graph::ValueId constant, PackedOperand form) const;

  /// What `load` gives at the four positions along K from 4 * quad, zero past the end. It is
  /// asked for four lanes of them where they are a vector, else for one after another.
  using LoadAt = std::function<Result<kernel::Val>(const Expr& position, int lanes)>;
  Result<Values> four_positions(kernel::Val quad, bool vector, const LoadAt& load);
  /// The same for what depends on one position.
  Result<Values> one_position(kernel::Val position, const LoadAt& load);

  Expr k_;              // length of the K axis
  shaders::Tile tile_;  // once chosen

 private:
  /// Input `input` of a dequantisation at the four columns from 4 * vec.
  Result<kernel::Val> parameters(const graph::Node& n, size_t input, kernel::Val vec,
                                 const WeightIndex& index);

  /// Values that are zero where `inside` does not hold.
  Values or_zero(kernel::Val inside, Values values);

  bool exact_steps_ = false;
  const graph::Node* scaled_by_ = nullptr;  // a dequantisation
  WeightIndex scale_at_;
};

}  // namespace reprise::lower
