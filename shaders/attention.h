// Kernel template for attention: out[m] = softmax over keys of score(q[m] . k[key]), times v[key],
// without storing the scores. Keys are visited in blocks. A row keeps its largest score, the sum of
// its exponentials and the weighted sum of values; the sums are scaled down when a larger score
// appears (the online softmax of Milakov and Gimelshein, as in FlashAttention).
//
// An Attention is the problem (codegen/lower): it knows where queries, keys and values lie, and how
// the softmax's input follows from a dot product (scale, mask). An AttentionTile says how many rows
// of queries, keys of a block and columns of values a unit of work holds.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/target/target_facts.h"
#include "shaders/operand.h"
#include "shaders/result_tile.h"

namespace reprise::shaders {

/// The operands. Rows and keys are I32 and may lie past the end: loads then read the last one.
class Attention {
 public:
  virtual ~Attention() = default;
  virtual kernel::Builder& builder() = 0;

  /// Where a row of queries, a key, or the four columns from 4 * vec of the values lie. A key's
  /// index is valid only in the loop body that computes it; `block` is the number of keys that
  /// blocks() was called with.
  virtual Index row(Value at) = 0;
  virtual Index key(Value at, int block) = 0;
  virtual Index column(Value vec) = 0;

  /// What is known of the operands, in kernels that ask. Queries and keys are indexed as (row or
  /// key, position of the head), values as (column, key). As with GEMMs (contraction.h), the plain
  /// form knows no edges: it does not clamp.
  virtual Operand queries() { return {}; }
  virtual Operand keys() { return {}; }
  virtual Operand values() { return {}; }

  virtual Value key_count() = 0;
  /// Whether the number of keys is known to be a multiple of this block size.
  virtual bool whole_blocks(int keys) const = 0;
  /// for (first = 0; first < key_count; first += keys)
  virtual Status blocks(int keys, const std::function<Status(Value first)>& body) = 0;

  /// Writes the loops over the head size and calls `body` in the innermost one.
  virtual Status k_loop(const KStepBody& body) = 0;
  /// The four positions of the head from 4 * at, which are not past its end.
  virtual KStep quad(Value at) = 0;
  /// A row of queries, or a key, at every position of the step.
  virtual Result<Values> query_at(const Index& row, const KStep& step) = 0;
  virtual Result<Values> key_at(const Index& key, const KStep& step) = 0;
  /// The softmax's input, computed from the dot product of a query and a key. F32.
  virtual Result<Val> score(const Index& row, const Index& key, Value dot) = 0;
  /// Four columns of a key's value.
  virtual Result<Values> value(const Index& key, const Index& column) = 0;
  /// A row's result from the weighted sum of its values and the sum of its weights, which is 0 if
  /// every score was -inf, and NaN if a score was NaN.
  virtual Value normalized(Value weighted, Value total) = 0;

  /// Whether log(sum(exp(score))) of each row is a result, too.
  virtual bool has_log_sums() const = 0;
  /// Stores it where `first` holds and the row exists. Only if has_log_sums(). `base` is what was
  /// subtracted from the scores, and `total` is the sum of the weights.
  virtual Status store_log_sum(Value row, Val first, Value base, Value total) = 0;
};

/// What the choice of a tile depends on. A dynamic size has a representative value here.
struct AttentionSize {
  double batch = 1, rows = 1, keys = 1;
  double depth = 1;                       // head size of queries and keys
  int columns = 4;                        // head size of values; always known
  int known_depth = 0;                    // depth, if it is constant and not huge; else 0
  double key_loads = 1, value_loads = 1;  // loads of 4 elements: 1 if consecutive, else 4
  double score_flops = 0;  // for each score, between the first MatMul and the softmax
  /// The types of matrix units that multiply the operands, if these are fp16 or bf16 and heads lie
  /// side by side; and how many elements of queries, keys and values an asynchronous copy brings.
  std::optional<MmaTypes> mma = std::nullopt;
  std::array<int, 3> copied{};
};

/// TileShape::rows are rows of queries, TileShape::columns are columns of values.
struct AttentionTile : TileShape {
  int lanes = 1;  // invocations that share rows, each with its own keys and columns: 1 or 8
  int team = 1;   // invocations of a workgroup that share a row, each with its own keys
  // Of tiles with shared blocks of operands: the head size, and its part that is loaded at once.
  int depth = 0, chunk = 0;
  // Of tiles on matrix units: the operation, blocks of keys in shared memory, and the head size of
  // values, of which `columns` are whole matrices.
  MmaConfig matrix = {};
  int stages = 0, value_columns = 0;
  // Keys of one invocation in a block, which has lanes * team * keys; with shared blocks, of a
  // block.
  int keys = 4;
  int per_invocation = 4;  // columns of one invocation
  bool fma = false;        // whether multiply-adds are explicitly fused
  double cost = 0;         // estimated time, in the unit of GEMM tiles (contraction.h)

  std::string describe() const;
};

/// The accumulators of a tile do not fit heads with more columns.
inline constexpr int kMaxAttentionColumns = 256;

/// Tiles worth considering, cheapest first: a pure function of its arguments, never empty.
std::vector<AttentionTile> attention_tiles(const AttentionSize& size, const TargetFacts& device);

/// Estimated time of two MatMuls and a softmax as separate kernels, which store the scores.
/// Infinite where they have not been found faster on any device.
double separate_cost(const AttentionSize& size, const TargetFacts& device);

/// One tile of one attention, in the kernel that computes it.
struct AttentionWork {
  Attention& attention;
  ResultTile& result;
  const AttentionTile& tile;
  TileOrigin origin;
};
Status write_attention(const AttentionWork& work);

}  // namespace reprise::shaders
