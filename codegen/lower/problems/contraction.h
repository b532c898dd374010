// A MatMul or convolution as a Gemm for the schedules of shaders/contraction.h: where its rows
// and columns lie, and how packed weights are read.
#pragma once

#include <memory>
#include <optional>

#include "codegen/lower/problems/operand.h"
#include "shaders/contraction.h"

namespace reprise::lower {

Result<Lowered> lower_matmul(const graph::Graph& g, const Group& group, const TargetFacts& target,
                             size_t choice);
Result<Lowered> lower_conv(const graph::Graph& g, const Group& group, const TargetFacts& target,
                           size_t choice);

/// What matrix units multiply in a group that is a contraction of floats, or of such and a weight
/// of integers.
std::optional<MmaTypes> mma_types(const graph::Graph& g, const Group& group);

/// A constant operand, which may be packed when a session is made: floats, or 8-bit integers that a
/// node of the group dequantises.
struct ConstantOperand {
  graph::ValueId value = graph::kNone;
  const graph::Node* dequantize = nullptr;
};
/// Whether the constant has integers whose scale differs along no other axis than that of columns,
/// so that it is left to the result.
bool scales_result(const graph::Graph& g, const ConstantOperand& constant, int64_t column_axis);
/// The 4-bit integers of four columns in such a word, as I32: those of its first value of k or, if
/// `odd` is 1, of the second one.
Value nibbles_of(kernel::Builder& b, Value word, Value odd, bool is_signed);
std::optional<ConstantOperand> constant_operand(const graph::Graph& g, const Group& group,
                                                graph::ValueId v);

/// The index of an element of the weight that belongs to a column of the result.
using WeightIndex = std::function<Index(const Expr& column)>;

/// The operands of one tile in the kernel that computes it. MatMul and convolution derive from it.
class TileOperands : public shaders::Gemm {
 public:
  kernel::Builder& builder() override { return b_; }
  Value first_k_block() override;
  Value k_block_count() override;
  bool whole_k_blocks() const override { return whole_blocks_; }
  Status k_blocks(const std::function<Status()>& first,
                  const std::function<Status(Value)>& body) override;
  Status branch(Val condition, const std::function<Status()>& then,
                const std::function<Status()>& otherwise) override;

  shaders::GemmExtent extent() override {
    const ResultShape& shape = kernel_.shape();
    return {ev_.value(shape.m), ev_.value(shape.n), ev_.value(k_)};
  }
  bool whole_columns() const override { return packing_.has_value() || kernel_.exact_columns(); }
  /// The index of the anchor's result at a row and column of the GEMM.
  virtual Index result_index(const Expr& row, const Expr& column) = 0;
  /// What a schedule may know of a constant operand, which is packed.
  shaders::Operand packed_operand(const ConstantOperand& constant);
  /// The view of an operand whose elements, at a row of A or column of B and at k, are those of v
  /// at the index that `at` gives, or of a constant one, if they are 16-bit floats. `n`: columns of
  /// B.
  std::optional<shaders::ViewedOperand> viewed(
      graph::ValueId v, const Expr& count,
      const std::function<Index(const Expr& i, const Expr& k)>& at);
  std::optional<shaders::ViewedOperand> viewed(const ConstantOperand& constant, const Expr& n);
  Status each_tile(const std::function<Status(const shaders::TileOrigin&)>& body) override {
    return kernel_.each_unit([&] { return body(unit_.origin); });
  }
  Status run_roles(std::span<const std::function<Status()>> bodies) override {
    return ev_.run_roles(bodies);
  }
  /// From now on the constant operand is read in this form. `is_own`: the schedule chose another
  /// than Schedule::packing() does by default.
  void use_packing(plan::Packing packing, bool transposed, bool is_own) {
    packing_ = std::move(packing);
    transposed_ = transposed;
    own_packing_ = is_own;
  }
  /// Applies the scale of a quantised weight to the sums of the four columns from 4 * vec, before
  /// the epilogue.
  Result<Value> finish(Value vec, Value four);
  /// Stores results of this tile with finish() and the epilogue. The operands must outlive it.
  StoredTile stored_tile();

 protected:
  /// `k`: length of the K axis.
  TileOperands(ResultKernel& kernel, const shaders::Tile& tile, const WorkUnit& unit, Expr k);

  /// Four columns from 4 * vec at row k of a constant that is packed into tiles of columns:
  /// [batch][tile of columns][k][columns of a tile]. An 8-bit constant is dequantised, except for a
  /// scale that scale_result() applies. `index` locates the scale and zero point of a column.
  Result<Val> load_packed(const ConstantOperand& constant, Value vec, Value k,
                          const WeightIndex& index);
  /// The words with the integers of four columns from 4 * vec and the eight k from 8 * octet, of a
  /// constant of 4-bit integers that is packed in that way.
  Value load_octet(const ConstantOperand& constant, Value vec, Value octet);
  /// `count` columns from 4 * vec at row k of a constant in whole elements, as they are in memory:
  /// 4, or 8 or 16 bytes. The tile has a multiple of them.
  Value load_columns(const ConstantOperand& constant, Value vec, Value k, int count);
  /// Scales, zero points or minimums (`input` 1, 2 or 3) of the four columns from 4 * vec.
  Result<Val> parameters(const graph::Node& n, size_t input, Value vec, const WeightIndex& index);
  /// From now on finish() multiplies each result by the scale of its column, that of the weight at
  /// `index`.
  void scale_result(const graph::Node* dequantize, WeightIndex index);

  bool has_own_packing() const { return own_packing_; }
  /// Calls `load` for the four values of k from 4 * quad: once with four lanes if `vector` and K is
  /// a multiple of 4, else once for each k. Puts zeros past the end of K, unless they are `whole`.
  using LoadAt = std::function<Result<Val>(const Expr& k, int lanes)>;
  Result<Values> load_quad(Value quad, bool vector, bool whole, const LoadAt& load);
  /// Calls `load` for one k, likewise.
  Result<Values> load_one(Value k, bool whole, const LoadAt& load);

  ResultKernel& kernel_;
  const graph::Graph& g_;
  kernel::Builder& b_;
  Evaluator& ev_;
  const shaders::Tile& tile_;
  const WorkUnit& unit_;
  const Expr k_;

 private:
  /// Blocks of K of one split, or of one workgroup of a cluster.
  Expr blocks_of_split() const {
    return Expr::ceildiv(Expr::ceildiv(k_, tile_.step), tile_.splits * tile_.cluster_parts);
  }
  /// The index of the first element of a packed operand, in a tile's `rows` of columns.
  Value packed_tile(const Value& rows);
  /// Four columns at k in the form of use_packing().
  Val load_own(const ConstantOperand& constant, Value vec, Value k);
  /// Four 4-bit integers at k, as I32.
  Value load_nibbles(const ConstantOperand& constant, Value vec, Value k);

  bool whole_blocks_;                       // K is a multiple of Tile::step
  const graph::Node* scaled_by_ = nullptr;  // the dequantisation whose scale finish() applies
  WeightIndex scale_at_;
  std::optional<plan::Packing> packing_;  // of a constant operand
  bool own_packing_ = false;              // it is not the default's
  bool transposed_ = false;               // the weight is [N, K]
};

/// A contraction before a tile is chosen for it. lower_contraction() fills in m, n, batch and half
/// of `size`.
struct ContractionProblem {
  ResultShape result;
  shaders::GemmSize size;
  std::string note;  // appended to the name of the schedule
  /// The constant operand that the kernel reads in a packed form.
  graph::ValueId constant = graph::kNone;
  plan::MatrixShape weight;
  int64_t weight_bits = 0;  // Packing::bits
  bool converts = false;    // loads of operands are short enough for a team to convert them
  bool one_row = false;     // of a tile: the kernel computes reductions of its row
  bool integers = false;    // the constant operand has integers, which the kernel dequantises
  std::function<std::unique_ptr<TileOperands>(ResultKernel& kernel, const shaders::Tile& tile,
                                              const WorkUnit& unit)>
      operands;
};
/// The operands of a unit of work, with the form of the constant one that the tile's schedule
/// chooses.
std::unique_ptr<TileOperands> operands_of(const ContractionProblem& problem, ResultKernel& kernel,
                                          const shaders::Tile& tile, const WorkUnit& unit);
/// The two launches of a tile whose K is split: one stores the sum of each split, the other adds
/// them and computes the epilogue.
Result<Lowered> lower_split_k(const graph::Graph& g, const Group& group, const TargetFacts& target,
                              const ContractionProblem& problem, const shaders::Tile& tile);
/// Records in which form a launch reads the problem's constant operand.
void add_packed(LoweredLaunch& out, const ContractionProblem& problem, const shaders::Tile& tile);
/// Lowers the contraction with tile number `choice` of its candidates.
Result<Lowered> lower_contraction(const graph::Graph& g, const Group& group,
                                  const TargetFacts& target, ContractionProblem problem,
                                  size_t choice);

}  // namespace reprise::lower
