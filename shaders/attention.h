// Attention: softmax over the scores of a row of queries with all keys, times the values, without
// the scores in memory. Keys are visited in blocks; a row keeps its largest score, the sum of its
// exponentials and its weighted values, which are scaled down when a larger score appears (the
// online softmax of Milakov and Gimelshein, as in FlashAttention).
//
// An Attention says where queries, keys and values lie and what happens to a dot product on its way
// to the softmax (codegen/lower); the tile here says how many rows and keys a unit of work holds.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shaders/result_tile.h"
#include "shaders/target_facts.h"

namespace reprise::shaders {

/// Rows and keys are I32 and may lie past the end: they then stand for the last one.
class Attention {
 public:
  virtual ~Attention() = default;
  virtual kernel::Builder& builder() = 0;

  /// Where a row, a key and four columns of the values lie. A key's index belongs to the loop body
  /// that it is made in; `block`: the keys that blocks() was called with.
  virtual Index row(Value at) = 0;
  virtual Index key(Value at, int block) = 0;
  virtual Index column(Value vec) = 0;

  virtual Value key_count() = 0;
  /// Whether there are no keys past the end in blocks of this size.
  virtual bool whole_blocks(int keys) const = 0;
  /// for (first = 0; first < key_count; first += keys)
  virtual Status blocks(int keys, const std::function<Status(Value first)>& body) = 0;

  /// Writes the loops over the head size and calls `body` in the innermost one.
  virtual Status k_loop(const KStepBody& body) = 0;
  /// The row's query, or the key, at every position of the step.
  virtual Result<Values> query_at(const Index& row, const KStep& step) = 0;
  virtual Result<Values> key_at(const Index& key, const KStep& step) = 0;
  /// What the softmax sees of the dot product of a row's query and a key. F32.
  virtual Result<Val> score(const Index& row, const Index& key, Value dot) = 0;
  /// Four columns of a key's value.
  virtual Result<Values> value(const Index& key, const Index& column) = 0;
  /// A row's result from its weighted values and the sum of its weights, which is 0 where every
  /// score was -inf and NaN where one was NaN.
  virtual Value normalized(Value weighted, Value total) = 0;
};

/// Sizes that a choice depends on; representative ones where they are dynamic.
struct AttentionSize {
  double batch = 1, rows = 1, keys = 1;
  double depth = 1;                       // of queries and keys
  int columns = 4;                        // of values: known
  double key_loads = 1, value_loads = 1;  // of 4 elements: 1 if they are consecutive, else 4
  double score_flops = 0;                 // between the first MatMul and the softmax
};

struct AttentionTile : TileShape {
  int lanes = 1;     // invocations that share rows, each with keys and columns of its own: 1 or 8
  int keys = 4;      // of one invocation, in a block
  int own = 4;       // columns of one invocation
  bool fma = false;  // explicit fused multiply-adds
  double cost = 0;   // estimated time, in the unit of GEMM tiles (contraction.h)

  std::string describe() const;
};

/// Heads of more columns do not fit the accumulators of a tile.
inline constexpr int kMostAttentionColumns = 256;

/// Tiles worth considering, cheapest first: a pure function of its arguments, never empty.
std::vector<AttentionTile> attention_tiles(const AttentionSize& size, const TargetFacts& device);

/// Estimated time of the same by two MatMuls and a softmax, which need memory for the scores.
/// Infinite where no device was seen on which that was faster.
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
