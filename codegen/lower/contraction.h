// A MatMul or convolution as a Gemm for the schedules of shaders/contraction.h: where its rows
// and columns lie, and packed weights.
#pragma once

#include <memory>
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

/// Index of an element of the weight at a column of the result.
using WeightIndex = std::function<Index(const Expr& column)>;

/// The operands of one tile, in the kernel that computes it: what MatMul and convolution share.
class TileOperands : public shaders::Gemm {
 public:
  kernel::Builder& builder() override { return b_; }
  Value first_k_block() override;
  Value k_block_count() override;
  Status k_blocks(const std::function<Status()>& first,
                  const std::function<Status(Value)>& body) override;

  /// Index of the anchor's result.
  virtual Index result_index(const Expr& row, const Expr& column) = 0;
  /// What becomes of four columns of sums before the epilogue.
  Result<Value> finish(Value vec, Value four);

 protected:
  /// `k`: length of the K axis.
  TileOperands(ResultKernel& kernel, const shaders::Tile& tile, const WorkUnit& unit, Expr k);

  /// Four columns from 4 * vec at row k of a constant that is packed into tiles of columns:
  /// [batch][tile of columns][k][columns of a tile]. A constant of 8 bits is dequantised, but for a
  /// scale that is left to the result; `index` says where a column's scale and zero point lie.
  Result<Val> load_packed(const ConstantOperand& constant, Value vec, Value k,
                          const WeightIndex& index);
  /// Every result is multiplied by the scale of its column: that of the weight at `index`.
  void scale_result(const graph::Node* dequantize, WeightIndex index);

  /// What `load` gives at the four values of k from 4 * quad, zero past the end. It is asked for
  /// four lanes of them where they are a vector, else for one after another.
  using LoadAt = std::function<Result<Val>(const Expr& k, int lanes)>;
  Result<Values> load_quad(Value quad, bool vector, const LoadAt& load);
  /// The same for what depends on one k.
  Result<Values> load_one(Value k, const LoadAt& load);

  ResultKernel& kernel_;
  const graph::Graph& g_;
  kernel::Builder& b_;
  Evaluator& ev_;
  const shaders::Tile& tile_;
  const WorkUnit& unit_;
  const Expr k_;

 private:
  /// Blocks of K of one split.
  Expr blocks_of_split() const {
    return Expr::ceildiv(Expr::ceildiv(k_, tile_.step), tile_.splits);
  }
  /// Input `input` of a dequantisation at the four columns from 4 * vec.
  Result<Val> parameters(const graph::Node& n, size_t input, Value vec, const WeightIndex& index);

  bool exact_steps_;
  const graph::Node* scaled_by_ = nullptr;  // a dequantisation
  WeightIndex scale_at_;
};

/// A contraction before a tile is chosen for it.
struct ContractionProblem {
  ResultShape result;
  shaders::GemmSize size;  // its m, n, batch and half are filled in
  std::string note;        // joins the name of the schedule
  /// The constant operand that the kernel reads in a packed form; the tile is filled in.
  graph::ValueId constant = graph::kNone;
  PackedOperand packed;
  std::function<std::unique_ptr<TileOperands>(ResultKernel& kernel, const shaders::Tile& tile,
                                              const WorkUnit& unit)>
      operands;
};
/// The two launches of a tile whose K is split: one stores the sum of each split, the other adds
/// them and computes the epilogue.
Result<Lowered> lower_split_k(const graph::Graph& g, const Group& group, const TargetFacts& target,
                              const ContractionProblem& problem, const shaders::Tile& tile);
/// Notes that a launch reads the problem's constant operand in tiles of packed columns.
void add_packed(LoweredLaunch& out, const ContractionProblem& problem, const shaders::Tile& tile);
/// The kernel with the tile numbered `choice`.
Result<Lowered> lower_contraction(const graph::Graph& g, const Group& group,
                                  const TargetFacts& target, ContractionProblem problem,
                                  size_t choice);

}  // namespace reprise::lower
