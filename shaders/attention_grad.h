// Kernel template for the gradients of attention, without storing scores. Attention computes
//
//   out[m] = sum over keys of weight[m][key] * v[key],  weight = exp(score(q[m] . k[key]) -
//   log_sum[m])
//
// and with the gradient g of out, and share[m] = out[m] . g[m],
//
//   pull[m][key] = weight[m][key] * (g[m] . v[key] - share[m])
//   gradient of q[m]   = scale * sum over keys of pull[m][key] * k[key]
//   gradient of k[key] = scale * sum over rows m of pull[m][key] * q[m]
//   gradient of v[key] = sum over rows m of weight[m][key] * g[m]
//
// Both kernels have one form: a unit of work has `rows` rows (of queries, or keys), and visits the
// others (keys, or queries) in blocks. A row and another one have two factors each, (q, g) or
// (k, v), whose products give the weight and the pull of the pair; the results are sums of the
// others' factors. So the scores are computed twice, which needs neither memory for them nor atomic
// additions.
//
// An AttentionGrad is the problem (codegen/lower), which knows where operands lie.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shaders/attention.h"

namespace reprise::shaders {

enum class GradOf : uint8_t { Queries, Keys };

/// The operands. Rows and others are I32 and may lie past the end: loads then read the last one.
class AttentionGrad {
 public:
  virtual ~AttentionGrad() = default;
  virtual kernel::Builder& builder() = 0;

  /// Where a row, another one, or the four columns from 4 * vec of a factor lie. The index of
  /// another one is valid only in the loop body that computes it; `block` is the number of others
  /// that blocks() was called with.
  virtual Index row(Value at) = 0;
  virtual Index other(Value at, int block) = 0;
  virtual Index column(Value vec) = 0;

  /// What is known of a factor (see row_at()) of the rows and of the others, in kernels that ask:
  /// indexed as (row or other one, position of the head). That of others is valid in the body of
  /// blocks() that asks.
  virtual Operand rows(int /*factor*/) { return {}; }
  virtual Operand others(int /*factor*/) { return {}; }

  virtual Value other_count() = 0;
  /// Whether the number of others is known to be a multiple of this block size.
  virtual bool whole_blocks(int others) const = 0;
  /// Loops over blocks of others. Those whose pairs with the `rows` rows from `row` are all hidden
  /// may be left out.
  virtual Status blocks(Value row, int rows, int others,
                        const std::function<Status(Value first)>& body) = 0;

  /// Writes the loops over the head size and calls `body` in the innermost one.
  virtual Status k_loop(const KStepBody& body) = 0;
  /// The four positions of the head from 4 * at, which are not past its end.
  virtual KStep quad(Value at) = 0;
  /// Factor 0 (q or k) or 1 (g or v) of a row or another one at every position of the step.
  virtual Result<Values> row_at(int factor, const Index& row, const KStep& step) = 0;
  virtual Result<Values> other_at(int factor, const Index& other, const KStep& step) = 0;
  /// Four columns of a factor of another one.
  virtual Result<Values> columns_at(int factor, const Index& other, const Index& column) = 0;

  struct Weights {
    Value pull, weight;
  };
  /// Of a pair, from the products of its two factors.
  virtual Result<Weights> weights(const Index& row, const Index& other, Value first,
                                  Value second) = 0;
  /// What is stored for the sum of a result.
  virtual Value finished(int result, Value sum) = 0;
};

/// What the choice of a tile depends on. A dynamic size has a representative value here.
struct AttentionGradSize {
  GradOf of = GradOf::Queries;
  double batch = 1, rows = 1, others = 1;
  int head = 4;
  double loads = 1;        // of 4 elements of a factor: 1 if consecutive, else 4
  double score_flops = 0;  // for each score, beyond its product and exponential

  /// Result 0 adds up the others' factor 0 by pulls, result 1 factor 1 by weights.
  int results() const { return of == GradOf::Queries ? 1 : 2; }
};

/// TileShape::rows are rows, TileShape::columns are columns of each result.
struct AttentionGradTile : TileShape {
  int lanes = 1;  // invocations that share rows, each with its own others: 1 or 8
  // Of tiles with shared blocks of operands: the head size, and its part that is loaded at once.
  int depth = 0, chunk = 0;
  // Others of one invocation in a block, which has lanes * others; with shared blocks, of a block.
  int others = 4;
  int per_invocation = 4;  // columns of one invocation
  bool fma = false;        // whether multiply-adds are explicitly fused
  double cost = 0;         // estimated time, in the unit of GEMM tiles (contraction.h)

  std::string describe() const;
};

/// Tiles worth considering, cheapest first: a pure function of its arguments, never empty.
std::vector<AttentionGradTile> attention_grad_tiles(const AttentionGradSize& size,
                                                    const TargetFacts& device);

/// Whether separate kernels, which store the scores, have been found faster on such a device. The
/// size is that of the queries' kernel.
bool separate_gradients_win(const AttentionGradSize& size, const TargetFacts& device);

/// One tile in the kernel that computes it. There is a ResultTile for each result.
struct AttentionGradWork {
  AttentionGrad& grad;
  std::vector<ResultTile*> results;
  const AttentionGradTile& tile;
  TileOrigin origin;
};
Status write_attention_grad(const AttentionGradWork& work);

}  // namespace reprise::shaders
