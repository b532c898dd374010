// The operators Attention and QAttention of com.microsoft: projections, attention and masks in one
// node.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md defines it.
#include <string>

#include "codegen/ops/microsoft/heads.h"
#include "codegen/ops/microsoft/microsoft.h"
#include "codegen/ops/row/dims.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

enum : size_t { kInput, kWeights, kBias };

/// Where an operator has the inputs that may be omitted.
struct Slots {
  size_t mask = 0, past = 0, score_bias = 0;
};
constexpr Slots kFloatSlots{3, 4, 5};
constexpr size_t kPastLength = 6;
// QAttention. It has no bias of the scores.
enum : size_t { kInputScale = 3, kWeightScale = 4, kInputZero = 6, kWeightZero = 7 };
constexpr Slots kQuantizedSlots{5, 8, 9};

/// Sizes of an Attention: of Q and K, and of V, over all heads.
struct AttentionSizes {
  Expr batch, length, past, keys;
  int64_t heads = 0, qk = 0, v = 0;

  KeyMask mask(size_t input) const { return {input, "mask_index", batch, length, keys, true}; }
};

std::vector<int64_t> hidden_sizes(const InferContext& ctx) {
  const Attributes attrs = ctx.attrs();
  return attrs.declares("qkv_hidden_sizes") ? attrs.get_ints("qkv_hidden_sizes")
                                            : std::vector<int64_t>{};
}

Result<AttentionSizes> sizes_of(const InferContext& ctx, const Slots& slots) {
  AttentionSizes s;
  if (ctx.rank(kInput) != 3 || ctx.rank(kWeights) != 2)
    return ctx.invalid("input and weights must have rank 3 and 2, have shapes " +
                       ctx.str(ctx.shape(kInput)) + " and " + ctx.str(ctx.shape(kWeights)));
  s.batch = ctx.shape(kInput)[0];
  s.length = ctx.shape(kInput)[1];
  s.heads = ctx.attrs().get_int("num_heads");
  const Expr columns = ctx.shape(kWeights)[1];
  if (!columns.is_const())
    return ctx.error(Code::Unsupported, "the size of the weights must be constant");
  const std::vector<int64_t> given = hidden_sizes(ctx);
  if (!given.empty() && (given.size() != 3 || given[0] != given[1]))
    return ctx.invalid("qkv_hidden_sizes must be three sizes, the first two equal");
  s.qk = given.empty() ? columns.value() / 3 : given[0];
  s.v = given.empty() ? columns.value() / 3 : given[2];
  const bool fits = s.heads >= 1 && s.qk >= 1 && s.v >= 1 && s.qk <= columns.value() &&
                    s.v == columns.value() - 2 * s.qk && s.qk % s.heads == 0 && s.v % s.heads == 0;
  if (!fits)
    return ctx.invalid("num_heads = " + std::to_string(s.heads) +
                       " and qkv_hidden_sizes do not divide the " + columns.str({}) +
                       " columns of the weights");
  const size_t past = slots.past;
  s.past = ctx.has_input(past) && ctx.rank(past) == 5 ? ctx.shape(past)[3] : Expr(0);
  s.keys = s.past + s.length;
  return s;
}

Status check_past(const InferContext& ctx, size_t i, DType dtype, const AttentionSizes& s) {
  if (!ctx.has_input(i)) return {};
  const Shape& past = ctx.shape(i);
  const Shape expected{2, s.batch, Expr(s.heads), s.past, Expr(s.qk / s.heads)};
  bool fits = past.size() == 5 && s.qk == s.v && ctx.dtype(i) == dtype;
  for (size_t d = 0; fits && d < 5; ++d)
    fits = ctx.unify(past[d], expected[d], "dims of the past").ok();
  if (fits) return {};
  return ctx.invalid("the past must have shape " + ctx.str(expected) + ", has " + ctx.str(past));
}

/// What the two operators have in common. `dtype` is that of the results.
Status infer_common(InferContext& ctx, const Slots& slots, DType dtype) {
  RP_ASSIGN(const AttentionSizes s, sizes_of(ctx, slots));
  RP_TRY(ctx.unify(ctx.shape(kInput)[2], ctx.shape(kWeights)[0], "rows of the weights").status());
  if (ctx.has_input(kBias)) {
    const Shape columns{ctx.shape(kWeights)[1]};
    RP_TRY(broadcast_shape(ctx, ctx.shape(kBias), columns, "bias"));
  }
  RP_TRY(check_past(ctx, slots.past, dtype, s));
  RP_TRY(check_key_mask(ctx, s.mask(slots.mask)));
  if (ctx.has_input(slots.score_bias)) {
    const Shape scores{s.batch, Expr(s.heads), s.length, s.keys};
    RP_TRY(broadcast_shape(ctx, ctx.shape(slots.score_bias), scores, "attention_bias"));
  }
  if (ctx.attrs().get_int("do_rotary") != 0)
    return ctx.error(Code::Unsupported, "do_rotary is not supported; use RotaryEmbedding");
  if (ctx.attrs().get_int("past_present_share_buffer") != 0)
    return ctx.error(Code::Unsupported,
                     "past_present_share_buffer is not supported; pass a past of the length that "
                     "is used");
  ctx.set_output(0, dtype, {s.batch, s.length, Expr(s.v)});
  ctx.set_output(1, dtype, {2, s.batch, s.heads, s.keys, s.qk / s.heads});
  return {};
}

Status infer_attention(InferContext& ctx) {
  RP_TRY(require_float(ctx, kInput));
  if (ctx.dtype(kWeights) != ctx.dtype(kInput))
    return ctx.invalid("input and weights differ in dtype");
  if (ctx.has_input(kPastLength))
    return ctx.error(Code::Unsupported,
                     "past_sequence_length is not supported; pass a past of "
                     "the length that is used");
  return infer_common(ctx, kFloatSlots, ctx.dtype(kInput));
}

Status infer_quantized_attention(InferContext& ctx) {
  RP_TRY(require_inputs(ctx, {kBias, kInputScale, kWeightScale}));
  RP_TRY(require_float(ctx, kBias));
  return infer_common(ctx, kQuantizedSlots, ctx.dtype(kBias));
}

class AttentionWriter {
 public:
  AttentionWriter(Rewriter& rw, AttentionSizes sizes, const Slots& slots)
      : c_(rw), s_(std::move(sizes)), slots_(slots) {}

  /// `y` are the projections [batch, length, columns].
  Result<bool> write(V y) {
    const V bias = score_bias(c_, s_.mask(slots_.mask), slots_.score_bias);
    std::vector<V> inputs{heads_of(y, 0, s_.qk), heads_of(y, s_.qk, s_.qk),
                          heads_of(y, 2 * s_.qk, s_.v), bias};
    if (c_.has(slots_.past)) inputs.insert(inputs.end(), {past(0), past(1)});
    if (!c_.ok()) return c_.finish();
    RP_ASSIGN(const std::vector<V> out,
              c_.rewriter().emit_all("Attention", std::move(inputs), attention_attributes(c_), 3));
    c_.replace(0, join_heads(c_, out[0]));
    if (c_.has_output(1)) c_.replace(1, present(out[1], out[2]));
    return c_.finish();
  }

 private:
  /// Columns of the projections as [batch, heads, length, size].
  V heads_of(V projected, int64_t first, int64_t size) {
    return split_heads(c_, c_.slice_axis(projected, 2, first, size), s_.heads);
  }

  /// The past of K (0) or V (1).
  V past(int64_t which) {
    const Shape s = c_.shape(c_.in(slots_.past));
    return c_.reshape(c_.slice_axis(c_.in(slots_.past), 0, which, 1),
                      Shape(s.begin() + 1, s.end()));
  }

  V present(V k, V v) {
    Shape s = c_.shape(k);
    s.insert(s.begin(), Expr(1));
    return c_.concat({c_.reshape(k, s), c_.reshape(v, s)}, 0);
  }

  OpBuilder c_;
  AttentionSizes s_;
  Slots slots_;
};

Result<bool> attention(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(AttentionSizes s, sizes_of(ctx, kFloatSlots));
  OpBuilder c(rw);
  V y = c.op("MatMul", {c.in(kInput), c.in(kWeights)});
  if (c.has(kBias)) y = c.add(y, c.in(kBias));
  if (!c.ok()) return c.finish();
  return AttentionWriter(rw, std::move(s), kFloatSlots).write(y);
}

/// The projections are products of integers.
Result<bool> quantized_attention(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(AttentionSizes s, sizes_of(ctx, kQuantizedSlots));
  Composer c(rw);
  const V y = c.microsoft("MatMulIntegerToFloat",
                          {c.in(kInput), c.in(kWeights), c.in(kInputScale), c.in(kWeightScale),
                           c.input(kInputZero), c.input(kWeightZero), c.in(kBias)});
  if (!c.ok()) return c.finish();
  return AttentionWriter(rw, std::move(s), kQuantizedSlots).write(y);
}

constexpr AttrDecl kAttentionAttrs[] = {int_attr("do_rotary", 0),
                                        float_attr("mask_filter_value", -10000.0F),
                                        required_attr("num_heads", AttrType::Int),
                                        int_attr("past_present_share_buffer", 0),
                                        optional_attr("qkv_hidden_sizes", AttrType::Ints),
                                        int_attr("rotary_embedding_dim", 0),
                                        float_attr("scale", 0.0F),
                                        int_attr("unidirectional", 0)};

constexpr AttrDecl kQuantizedAttrs[] = {int_attr("do_rotary", 0),
                                        float_attr("mask_filter_value", -10000.0F),
                                        required_attr("num_heads", AttrType::Int),
                                        int_attr("past_present_share_buffer", 0),
                                        float_attr("scale", 0.0F),
                                        int_attr("unidirectional", 0)};

}  // namespace

std::span<const OpDef> microsoft_attention_ops() {
  static constexpr OpDef kOps[] = {
      renamed(
          microsoft_row("ContribAttention", infer_attention, attention, {2, 7, 2}, kAttentionAttrs),
          "Attention"),
      microsoft_row("QAttention", infer_quantized_attention, quantized_attention, {2, 9, 2},
                    kQuantizedAttrs),
  };
  return kOps;
}

}  // namespace reprise::ops
