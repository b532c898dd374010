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
class Attention : public virtual ResultTile {
 public:
  /// Handles of what is loaded. A key's handle belongs to the loop body that it is made in.
  virtual int row(kernel::Val at) = 0;
  virtual int key(kernel::Val at) = 0;
  virtual int column(kernel::Val vec) = 0;

  virtual kernel::Val key_count() = 0;
  /// Whether there are no keys past the end in blocks of this size.
  virtual bool whole_blocks(int keys) const = 0;
  /// for (first = 0; first < key_count; first += keys)
  virtual void blocks(int keys, const std::function<void(kernel::Val first)>& body) = 0;

  /// Writes the loops over the head size and calls `step` in the body of each, with the number of
  /// positions that one call covers.
  virtual Status k_loop(const std::function<Status(int depth)>& step) = 0;
  /// In a step: the row's query, or the key, at every position of the step.
  virtual Result<Values> query_at(int row) = 0;
  virtual Result<Values> key_at(int key) = 0;
  /// What the softmax sees of the dot product of a row's query and a key. F32.
  virtual Result<kernel::Val> score(int row, int key, kernel::Val dot) = 0;
  /// Four columns of a key's value.
  virtual Result<Values> value(int key, int column) = 0;
  /// A row's result from its weighted values and the sum of its weights, which is 0 where every
  /// score was -inf and NaN where one was NaN.
  virtual kernel::Val normalized(kernel::Val weighted, kernel::Val total) = 0;
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

/// Writes the computation of the tile that begins at `row`.
Status write_attention(Attention& attention, const AttentionTile& tile, kernel::Val row,
                       kernel::Val column_tile);

}  // namespace reprise::shaders
