// What the rows of com.microsoft's operators on heads of attention share.
#pragma once

#include "codegen/ops/row/op_builder.h"

namespace reprise::ops {

/// [batch, length, heads * size] as [batch, heads, length, size].
OpBuilder::V split_heads(OpBuilder& c, OpBuilder::V v, int64_t heads);
/// Unsupported if the node has the input.
Status refuse_input(const InferContext& ctx, size_t i, const char* name);
/// An input that is present must have the dtype of input 0.
Status same_float(const InferContext& ctx, size_t i);
/// The number of heads must divide the columns, which must be constant.
Status require_heads(const InferContext& ctx, int64_t heads, const Expr& columns);

/// A mask of keys says of each key, or of each row's keys, whether it counts; or it has the number
/// of keys of each batch, or the ends of the keys of all batches and then their starts.
struct KeyMask {
  size_t input = 0;
  const char* name = "";
  Expr batch, length, keys;
  bool may_have_starts = false;
};
/// Unsupported if the mask is given and has another form.
Status check_key_mask(const InferContext& ctx, const KeyMask& mask);

/// What a node adds to the scores of its attention, from a mask of keys and a bias; kNone if it has
/// neither.
OpBuilder::V score_bias(OpBuilder& c, const KeyMask& mask, size_t bias_input);
/// The attributes of ONNX's Attention from `scale` and `unidirectional`.
AttrMap attention_attributes(OpBuilder& c);
/// [batch, heads, length, size] as [batch, length, heads * size].
OpBuilder::V join_heads(OpBuilder& c, OpBuilder::V v);

}  // namespace reprise::ops
