// MultiHeadAttention and RotaryEmbedding of com.microsoft, as operators of ONNX.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md defines them.
#include <algorithm>
#include <string>

#include "codegen/ops/microsoft/heads.h"
#include "codegen/ops/microsoft/microsoft.h"
#include "codegen/ops/row/dims.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

OpBuilder::V split_heads(OpBuilder& c, OpBuilder::V v, int64_t heads) {
  if (!c.ok()) return v;
  const Shape s = c.shape(v);
  return c.transpose(c.reshape(v, {s[0], s[1], Expr(heads), Expr::floordiv(s[2], heads)}),
                     {0, 2, 1, 3});
}

Status refuse_input(const InferContext& ctx, size_t i, const char* name) {
  if (!ctx.has_input(i)) return {};
  return ctx.error(Code::Unsupported, std::string("the input ") + name + " is not supported");
}

Status same_float(const InferContext& ctx, size_t i) {
  if (!ctx.has_input(i) || ctx.dtype(i) == ctx.dtype(0)) return {};
  return ctx.invalid("input " + std::to_string(i) + " has another dtype than the query");
}

Status require_heads(const InferContext& ctx, int64_t heads, const Expr& columns) {
  if (heads >= 1 && columns.is_const() && columns.value() % heads == 0) return {};
  return ctx.invalid(std::to_string(heads) + " heads do not divide " + ctx.str({columns}));
}

static bool has_starts(const KeyMask& mask, const Shape& shape) {
  return mask.may_have_starts && shape.size() == 1 && shape[0] == Expr(2) * mask.batch;
}

Status check_key_mask(const InferContext& ctx, const KeyMask& mask) {
  if (!ctx.has_input(mask.input)) return {};
  RP_TRY(require_int(ctx, mask.input));
  const Shape& shape = ctx.shape(mask.input);
  if (has_starts(mask, shape)) return {};
  const Shape forms[] = {
      {mask.batch}, {mask.batch, mask.keys}, {mask.batch, mask.length, mask.keys}};
  bool fits = !shape.empty() && shape.size() <= 3;
  for (size_t d = 0; fits && d < shape.size(); ++d)
    fits = ctx.unify(shape[d], forms[shape.size() - 1][d], "dims of the mask").ok();
  if (fits) return {};
  return ctx.error(Code::Unsupported, std::string(mask.name) + " has shape " + ctx.str(shape) +
                                          "; supported are " + ctx.str(forms[0]) + ", " +
                                          ctx.str(forms[1]) + " and " + ctx.str(forms[2]));
}

namespace {

/// Which keys count, as bool that broadcasts to the scores.
OpBuilder::V counting_keys(OpBuilder& c, const KeyMask& m) {
  const OpBuilder::V mask = c.cast(c.in(m.input), DType::I32);
  const Shape s = c.shape(mask);
  const OpBuilder::V key = c.positions(m.keys);
  if (has_starts(m, s)) {
    const OpBuilder::V bounds = c.reshape(mask, {2, m.batch, 1, 1, 1});
    const Shape each{m.batch, 1, 1, 1};
    const OpBuilder::V end = c.reshape(c.slice_axis(bounds, 0, 0, 1), each);
    const OpBuilder::V start = c.reshape(c.slice_axis(bounds, 0, 1, 1), each);
    return c.op("And", {c.op("Less", {key, end}), c.op("LessOrEqual", {start, key})});
  }
  if (s.size() == 1) return c.op("Less", {key, c.reshape(mask, {s[0], 1, 1, 1})});
  const Shape four = s.size() == 2 ? Shape{s[0], 1, 1, s[1]} : Shape{s[0], 1, s[1], s[2]};
  return c.op("Greater", {c.reshape(mask, four), c.scalar(DType::I32, 0)});
}

}  // namespace

OpBuilder::V score_bias(OpBuilder& c, const KeyMask& mask, size_t bias_input) {
  const OpBuilder::V bias = c.has(bias_input) ? c.in(bias_input) : graph::kNone;
  if (!c.has(mask.input)) return bias;
  // As in ONNX Runtime, a key that does not count gets a large negative score, so a row of such
  // keys has equal weights. The sum of both may overflow fp16.
  const double hidden = static_cast<double>(c.attrs().get_float("mask_filter_value"));
  const OpBuilder::V added =
      c.where(counting_keys(c, mask), c.scalar(DType::F32, 0), c.scalar(DType::F32, hidden));
  return bias == graph::kNone ? added : c.add(c.cast(bias, DType::F32), added);
}

AttrMap attention_attributes(OpBuilder& c) {
  AttrMap a;
  const float scale = c.attrs().get_float("scale");
  if (scale != 0) a.set("scale", scale);
  if (c.attrs().get_int("unidirectional") != 0) a.set("is_causal", int64_t{1});
  return a;
}

OpBuilder::V join_heads(OpBuilder& c, OpBuilder::V v) {
  if (!c.ok()) return v;
  const Shape s = c.shape(v);
  return c.reshape(c.transpose(v, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
}

namespace {

using V = OpBuilder::V;

// --- MultiHeadAttention --------------------------------------------------------------------------

namespace mha {

enum : size_t {
  kQuery,
  kKey,
  kValue,
  kBias,
  kKeyMask,
  kScoreBias,
  kPastKey,
  kPastValue,
  kPastLength,
  kIndirection
};

/// Sizes over all heads. The key and value may come as [batch, heads, keys, size].
struct Sizes {
  Expr batch, length, added, past;  // rows of the query, new keys, keys of the cache
  int64_t heads = 0, qk = 0, v = 0;
  bool packed = false;     // Q, K and V are one tensor [batch, length, heads, 3, size]
  bool packed_kv = false;  // K and V are one tensor [batch, keys, heads, 2, size]
  bool split = false;      // K and V are split in heads

  Expr keys() const { return past + added; }
  KeyMask mask() const { return {kKeyMask, "key_padding_mask", batch, length, keys()}; }
};

Result<int64_t> constant_columns(const InferContext& ctx, const Expr& e) {
  if (e.is_const()) return e.value();
  return ctx.error(Code::Unsupported, "the size of the heads must be constant");
}

Result<Sizes> sizes_of(const InferContext& ctx) {
  Sizes s;
  s.heads = ctx.attrs().get_int("num_heads");
  const Shape& q = ctx.shape(kQuery);
  s.packed = q.size() == 5;
  if (!s.packed && (q.size() != 3 || !ctx.has_input(kKey)))
    return ctx.invalid("the query must have rank 3, with a key, or rank 5, has shape " +
                       ctx.str(q));
  s.batch = q[0];
  s.length = s.added = q[1];
  s.past = ctx.has_input(kPastKey) && ctx.rank(kPastKey) == 4 ? ctx.shape(kPastKey)[2] : Expr(0);
  RP_ASSIGN(s.qk, constant_columns(ctx, s.packed ? Expr(s.heads) * q[4] : q[2]));
  s.v = s.qk;
  if (!s.packed) {
    const Shape& k = ctx.shape(kKey);
    s.packed_kv = k.size() == 5;
    s.split = k.size() == 4;
    if (k.size() < 3 || k.size() > 5 || (!s.packed_kv && !ctx.has_input(kValue)))
      return ctx.invalid("the key has shape " + ctx.str(k) + ", or there is no value");
    s.added = k[s.split ? 2 : 1];
    if (!s.packed_kv) {
      const Shape& v = ctx.shape(kValue);
      if (v.size() != k.size()) return ctx.invalid("key and value differ in rank");
      RP_ASSIGN(s.v, constant_columns(ctx, s.split ? Expr(s.heads) * v[3] : v[2]));
    }
  }
  RP_TRY(require_heads(ctx, s.heads, s.qk));
  RP_TRY(require_heads(ctx, s.heads, s.v));
  return s;
}

/// Requires the dims that the sizes do not come from.
Status check_operands(const InferContext& ctx, const Sizes& s) {
  const Expr qk = s.qk / s.heads, v = s.v / s.heads;
  if (s.packed)
    return require_shape(ctx, kQuery, "a packed query", {s.batch, s.length, s.heads, 3, qk});
  if (s.packed_kv)
    return require_shape(ctx, kKey, "a packed key", {s.batch, s.added, s.heads, 2, qk});
  const auto shape = [&](const Expr& size) {
    return s.split ? Shape{s.batch, s.heads, s.added, size}
                   : Shape{s.batch, s.added, Expr(s.heads) * size};
  };
  RP_TRY(require_shape(ctx, kKey, "the key", shape(qk)));
  return require_shape(ctx, kValue, "the value", shape(v));
}

Status infer(InferContext& ctx) {
  RP_TRY(require_float(ctx, kQuery));
  for (const size_t i : {kKey, kValue, kBias, kScoreBias, kPastKey, kPastValue})
    RP_TRY(same_float(ctx, i));
  RP_TRY(refuse_input(ctx, kPastLength, "past_sequence_length"));
  RP_TRY(refuse_input(ctx, kIndirection, "cache_indirection"));
  RP_ASSIGN(const Sizes s, sizes_of(ctx));
  RP_TRY(check_operands(ctx, s));
  if (ctx.has_input(kPastKey) != ctx.has_input(kPastValue))
    return ctx.invalid("there is a past of the keys or of the values, but not of both");
  if (ctx.has_input(kPastKey)) {
    RP_TRY(require_shape(ctx, kPastKey, "past_key", {s.batch, s.heads, s.past, s.qk / s.heads}));
    RP_TRY(require_shape(ctx, kPastValue, "past_value", {s.batch, s.heads, s.past, s.v / s.heads}));
  }
  if (ctx.has_input(kBias))
    RP_TRY(ctx.unify(ctx.shape(kBias).empty() ? Expr(0) : ctx.shape(kBias)[0], Expr(2 * s.qk + s.v),
                     "elements of the bias")
               .status());
  RP_TRY(check_key_mask(ctx, s.mask()));
  if (ctx.has_input(kScoreBias))
    RP_TRY(broadcast_shape(ctx, ctx.shape(kScoreBias), {s.batch, s.heads, s.length, s.keys()},
                           "attention_bias"));
  const DType t = ctx.dtype(kQuery);
  ctx.set_output(0, t, {s.batch, s.length, s.v});
  ctx.set_output(1, t, {s.batch, s.heads, s.keys(), s.qk / s.heads});
  ctx.set_output(2, t, {s.batch, s.heads, s.keys(), s.v / s.heads});
  ctx.set_output(3, t, {s.batch, s.heads, s.length, s.keys()});
  return {};
}

/// Part `which` of a tensor [batch, length, heads, parts, size], as [batch, length, heads * size].
V part(OpBuilder& c, V v, int64_t which) {
  const Shape s = c.shape(v);
  return c.reshape(c.slice_axis(v, 3, which, 1), {s[0], s[1], s[2] * s[4]});
}

struct Operands {
  V q, k, v;
};

/// Q, K and V with their biases, split in heads.
Operands operands_of(OpBuilder& c, const Sizes& s) {
  const auto biased = [&](V v, int64_t first, int64_t size) {
    return c.has(kBias) ? c.add(v, c.slice_axis(c.in(kBias), 0, first, size)) : v;
  };
  const auto heads = [&](V v, int64_t first, int64_t size) {
    return split_heads(c, biased(v, first, size), s.heads);
  };
  const V q = s.packed ? part(c, c.in(kQuery), 0) : c.in(kQuery);
  if (s.split) return {heads(q, 0, s.qk), c.in(kKey), c.in(kValue)};
  const V k = s.packed      ? part(c, c.in(kQuery), 1)
              : s.packed_kv ? part(c, c.in(kKey), 0)
                            : c.in(kKey);
  const V v = s.packed      ? part(c, c.in(kQuery), 2)
              : s.packed_kv ? part(c, c.in(kKey), 1)
                            : c.in(kValue);
  return {heads(q, 0, s.qk), heads(k, s.qk, s.qk), heads(v, 2 * s.qk, s.v)};
}

Result<bool> decompose(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const Sizes s, sizes_of(ctx));
  OpBuilder c(rw);
  const Operands o = operands_of(c, s);
  std::vector<V> inputs{o.q, o.k, o.v, score_bias(c, s.mask(), kScoreBias)};
  if (c.has(kPastKey)) inputs.insert(inputs.end(), {c.in(kPastKey), c.in(kPastValue)});
  if (!c.ok()) return c.finish();
  RP_ASSIGN(const std::vector<V> out,
            rw.emit_all("Attention", std::move(inputs), attention_attributes(c), 4));
  c.replace(0, join_heads(c, out[0]));
  for (size_t i = 1; i < 4; ++i) {
    if (c.has_output(i)) c.replace(i, out[i]);
  }
  return c.finish();
}

constexpr AttrDecl kAttrs[] = {float_attr("mask_filter_value", -10000.0F),
                               required_attr("num_heads", AttrType::Int), float_attr("scale", 0.0F),
                               int_attr("unidirectional", 0)};

}  // namespace mha

// --- RotaryEmbedding -----------------------------------------------------------------------------

namespace rotary {

enum : size_t { kInput, kPositions, kCos, kSin };

struct Sizes {
  Expr batch, length;
  int64_t heads = 0, rotated = 0;
  bool flat = false;  // [batch, length, heads * size]
};

Result<Sizes> sizes_of(const InferContext& ctx) {
  Sizes s;
  const Shape& x = ctx.shape(kInput);
  const Shape& cos = ctx.shape(kCos);
  if ((x.size() != 3 && x.size() != 4) || !x.back().is_const() || cos.size() != 2 ||
      !cos[1].is_const())
    return ctx.invalid(
        "input must have rank 3 or 4 and cos_cache rank 2, with constant columns; "
        "they have shapes " +
        ctx.str(x) + " and " + ctx.str(cos));
  s.flat = x.size() == 3;
  s.batch = x[0];
  s.length = x[s.flat ? 1 : 2];
  const int64_t given = ctx.attrs().get_int("rotary_embedding_dim");
  s.rotated = given > 0 ? given : 2 * cos[1].value();
  s.heads = ctx.attrs().get_int("num_heads");
  if (s.flat && s.heads == 0) s.heads = s.rotated == 0 ? 0 : x[2].value() / s.rotated;
  if (s.flat) RP_TRY(require_heads(ctx, s.heads, x[2]));
  return s;
}

Status infer(InferContext& ctx) {
  RP_TRY(require_int(ctx, kPositions));
  RP_ASSIGN(const Sizes s, sizes_of(ctx));
  if (ctx.attrs().get_int("is_packed_batching") != 0)
    return ctx.error(Code::Unsupported, "is_packed_batching is not supported");
  if (ctx.attrs().get_float("scale") != 1)
    return ctx.error(Code::Unsupported, "a scale other than 1 is not supported");
  const Shape& p = ctx.shape(kPositions);
  const bool offset = p.size() == 1 && p[0].is_const(1);
  if (!offset && p.size() != 2)
    return ctx.invalid("position_ids must have shape [1] or [batch, length], has " + ctx.str(p));
  if (!offset) {
    RP_TRY(ctx.unify(p[0], s.batch, "batches of input and position_ids").status());
    RP_TRY(ctx.unify(p[1], s.length, "lengths of input and position_ids").status());
  }
  return infer_same_float(ctx);
}

Result<bool> decompose(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const Sizes s, sizes_of(ctx));
  OpBuilder c(rw);
  V positions = c.cast(c.in(kPositions), DType::I64);
  if (c.shape(positions).size() == 1) {
    const V row = c.reshape(c.range(s.length), {1, s.length});
    positions = c.expand(c.add(row, positions), {s.batch, s.length});
  }
  AttrMap a;
  a.set("interleaved", c.attrs().get_int("interleaved"));
  a.set("num_heads", s.flat ? s.heads : int64_t{0});
  a.set("rotary_embedding_dim", s.rotated);
  c.replace(
      0, c.op("RotaryEmbedding", {c.in(kInput), c.in(kCos), c.in(kSin), positions}, std::move(a)));
  return c.finish();
}

constexpr AttrDecl kAttrs[] = {int_attr("interleaved", 0), int_attr("is_packed_batching", 0),
                               int_attr("num_heads", 0), int_attr("rotary_embedding_dim", 0),
                               float_attr("scale", 1.0F)};

}  // namespace rotary

}  // namespace

std::span<const OpDef> microsoft_heads_ops() {
  static constexpr OpDef kOps[] = {
      microsoft_row("MultiHeadAttention", mha::infer, mha::decompose, {1, 10, 4}, mha::kAttrs),
      {.name = "ContribRotaryEmbedding",
       .domain = kMicrosoft,
       .in_models = "RotaryEmbedding",
       .infer = rotary::infer,
       .decompose = rotary::decompose,
       .min_inputs = 4,
       .max_inputs = 4,
       .attributes = rotary::kAttrs},
  };
  return kOps;
}

}  // namespace reprise::ops
