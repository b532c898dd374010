// The inputs of AttentionGrad, which its row and its lowering share.
#pragma once

#include <cstdint>

#include "codegen/ops/row/op.h"

namespace reprise::ops {

/// The gradient of attention's result; queries, keys and values; for each row of queries, the
/// logarithm of the sum of its exponentials, and the sum of result * gradient; a mask, as
/// Attention's.
enum AttentionGradInput : uint8_t { kGrad, kQuery, kKey, kValue, kLogSum, kShare, kMask };

/// The largest head that kernels compute.
inline constexpr int64_t kMaxGradHead = 256;

/// Rewrites AttentionGrad as its formula, which has all scores in memory.
Result<bool> attention_grad_formula(Rewriter& rw);

}  // namespace reprise::ops
