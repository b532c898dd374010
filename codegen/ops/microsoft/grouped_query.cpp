// GroupQueryAttention of com.microsoft, as operators of ONNX.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md defines it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "codegen/ops/microsoft/heads.h"
#include "codegen/ops/microsoft/microsoft.h"
#include "codegen/ops/row/composed.h"
#include "codegen/ops/row/dims.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

enum : size_t {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLengths,
  kTotal,
  kCos,
  kSin,
  kPositions,
  kScoreBias,
  kSink,
  kKeyScale,
  kValueScale,
  kQueryNorm,
  kKeyNorm,
  kQueryLengths
};

struct GroupedSizes {
  Expr batch, length, total, present;
  int64_t heads = 0, kv_heads = 0, size = 0;
  bool packed = false;   // Q, K and V are the columns of one tensor
  bool appends = false;  // the caches are states that grow
};

Result<GroupedSizes> sizes_of(const InferContext& ctx) {
  GroupedSizes s;
  s.heads = ctx.attrs().get_int("num_heads");
  s.kv_heads = ctx.attrs().get_int("kv_num_heads");
  const Shape& q = ctx.shape(kQuery);
  if (q.size() != 3 || !q[2].is_const())
    return ctx.invalid("the query must have rank 3 and a constant size, has shape " + ctx.str(q));
  if (s.heads < 1 || s.kv_heads < 1 || s.heads % s.kv_heads != 0)
    return ctx.invalid("kv_num_heads must divide num_heads");
  s.packed = !ctx.has_input(kKey);
  if (!s.packed && !ctx.has_input(kValue)) return ctx.invalid("there is a key, but no value");
  const int64_t parts = s.packed ? s.heads + 2 * s.kv_heads : s.heads;
  RP_TRY(require_heads(ctx, parts, q[2]));
  s.batch = q[0];
  s.length = q[1];
  s.size = q[2].value() / parts;
  const auto total = ctx.elements(kTotal);
  if (!total || total->size() != 1) {
    return ctx.error(Code::Unsupported,
                     "total_sequence_length must follow from shapes, as the number of columns of "
                     "an attention mask does, because the size of the caches depends on it");
  }
  s.total = (*total)[0];
  const bool cached = ctx.has_input(kPastKey) && ctx.rank(kPastKey) == 4;
  s.appends = cached && ctx.attrs().get_int("append_rows") != 0;
  if (s.appends) {
    s.present = ctx.shape(kPastKey)[2] + s.length;
    RP_TRY(ctx.unify(s.present, s.total, "the cached and new rows, and the total length").status());
    return s;
  }
  s.present = cached ? max_of(ctx.shape(kPastKey)[2], s.total, ctx.graph_symbols()) : s.length;
  return s;
}

/// Caches of integers, and what needs them.
Status refuse_quantized_caches(const InferContext& ctx) {
  for (const char* name : {"k_quant_type", "v_quant_type"}) {
    const std::string kind = ctx.attrs().get_string(name);
    if (kind != "NONE")
      return ctx.error(Code::Unsupported, std::string(name) + " '" + kind + "' is not supported");
  }
  RP_TRY(refuse_input(ctx, kKeyScale, "k_scale"));
  return refuse_input(ctx, kValueScale, "v_scale");
}

bool has_sink(const InferContext& ctx) {
  return ctx.has_input(kSink) || ctx.attrs().get_int("smooth_softmax") > 0;
}

Status check_options(const InferContext& ctx) {
  RP_TRY(refuse_quantized_caches(ctx));
  RP_TRY(refuse_input(ctx, kQueryLengths, "query_seqlens"));
  for (const char* name : {"qk_output", "sliding_window_cache"}) {
    if (ctx.attrs().get_int(name) != 0)
      return ctx.error(Code::Unsupported, std::string(name) + " is not supported");
  }
  if (has_sink(ctx) && ctx.has_input(kScoreBias))
    return ctx.error(Code::Unsupported,
                     "attention_bias with head_sink or smooth_softmax is not "
                     "supported");
  if (ctx.attrs().get_int("causal") == 0 && ctx.attrs().get_int("local_window_size") > 0)
    return ctx.invalid("local_window_size must be -1 if causal is 0");
  if (ctx.has_input(kQueryNorm) != ctx.has_input(kKeyNorm))
    return ctx.invalid("q_norm_weight and k_norm_weight must be given together");
  return {};
}

Status infer(InferContext& ctx) {
  RP_TRY(require_float(ctx, kQuery));
  for (const size_t i :
       {kKey, kValue, kPastKey, kPastValue, kScoreBias, kSink, kQueryNorm, kKeyNorm})
    RP_TRY(same_float(ctx, i));
  RP_TRY(require_inputs(ctx, {kLengths, kTotal}));
  RP_TRY(require_int(ctx, kLengths));
  RP_TRY(check_options(ctx));
  RP_ASSIGN(const GroupedSizes s, sizes_of(ctx));
  if (ctx.has_input(kSink)) RP_TRY(broadcast_shape(ctx, ctx.shape(kSink), {s.heads}, "head_sink"));
  for (const size_t i : {kQueryNorm, kKeyNorm}) {
    if (ctx.has_input(i)) RP_TRY(broadcast_shape(ctx, ctx.shape(i), {s.size}, "a norm's weight"));
  }
  if (!s.packed) {
    const Shape rows{s.batch, s.length, s.kv_heads * s.size};
    RP_TRY(require_shape(ctx, kKey, "the key", rows));
    RP_TRY(require_shape(ctx, kValue, "the value", rows));
  }
  if (ctx.has_input(kPastKey) != ctx.has_input(kPastValue))
    return ctx.invalid("there is a past of the keys or of the values, but not of both");
  if (ctx.has_input(kPastKey)) {
    const Expr rows = ctx.rank(kPastKey) == 4 ? ctx.shape(kPastKey)[2] : Expr(0);
    const Shape past{s.batch, s.kv_heads, rows, s.size};
    RP_TRY(require_shape(ctx, kPastKey, "past_key", past));
    RP_TRY(require_shape(ctx, kPastValue, "past_value", past));
  }
  const Shape cache{s.batch, s.kv_heads, s.present, s.size};
  if (ctx.attrs().get_int("do_rotary") != 0 && (!ctx.has_input(kCos) || !ctx.has_input(kSin)))
    return ctx.invalid("do_rotary needs cos_cache and sin_cache");
  const DType t = ctx.dtype(kQuery);
  ctx.set_output(0, t, {s.batch, s.length, s.heads * s.size});
  ctx.set_output(1, t, cache);
  ctx.set_output(2, t, cache);
  return {};
}

class GroupedWriter {
 public:
  GroupedWriter(Rewriter& rw, GroupedSizes s) : c_(rw), s_(std::move(s)) {}

  Result<bool> write() {
    // The keys of a batch before the query. A prompt with padding is shorter than its rows.
    const V lengths = c_.reshape(c_.cast(c_.in(kLengths), DType::I64), {s_.batch});
    before_ = c_.max(c_.sub(c_.add(lengths, 1.0), c_.expr_value(s_.length, DType::I64)), 0.0);
    if (s_.appends) before_ = without_padding(c_.shape(c_.in(kPastKey))[2]);
    const int64_t q_columns = s_.heads * s_.size, kv_columns = s_.kv_heads * s_.size;
    const auto columns = [&](int64_t first, int64_t count) {
      return c_.slice_axis(c_.in(kQuery), 2, first, count);
    };
    const V q = rotated(s_.packed ? columns(0, q_columns) : c_.in(kQuery), s_.heads, kQueryNorm);
    const V k =
        rotated(s_.packed ? columns(q_columns, kv_columns) : c_.in(kKey), s_.kv_heads, kKeyNorm);
    const V v = split_heads(
        c_, s_.packed ? columns(q_columns + kv_columns, kv_columns) : c_.in(kValue), s_.kv_heads);
    const V keys = with_past(k, kPastKey), values = with_past(v, kPastValue);
    const V valid = c_.add(before_, c_.expr_value(s_.length, DType::I64));
    const InferContext ctx(c_.rewriter().graph(), c_.rewriter().node());
    const V y =
        has_sink(ctx)
            ? attention_with_sink(q, keys, values, valid)
            : c_.op("Attention",
                    {q, keys, values, c_.input(kScoreBias), graph::kNone, graph::kNone, valid},
                    attributes());
    c_.replace(0, join_heads(c_, y));
    if (c_.has_output(1)) c_.replace(1, keys);
    if (c_.has_output(2)) c_.replace(2, values);
    return c_.finish();
  }

 private:
  AttrMap attributes() {
    AttrMap a;
    a.set("is_causal", c_.attrs().get_int("causal"));
    const float scale = c_.attrs().get_float("scale");
    if (scale != 0) a.set("scale", scale);
    a.set("softcap", c_.attrs().get_float("softcap"));
    // The window of com.microsoft counts the query's own position.
    const int64_t window = c_.attrs().get_int("local_window_size");
    if (window > 0) a.set("left_window_size", window - 1);
    return a;
  }

  /// The number of elements of a head that are rotated.
  int64_t rotated_size() {
    const Expr half = c_.shape(c_.in(kCos)).back();
    return half.is_const() ? std::min(2 * half.value(), s_.size) : s_.size;
  }

  /// Positions of the rows: [batch, length].
  V positions() {
    if (c_.has(kPositions)) return c_.cast(c_.in(kPositions), DType::I64);
    const V row = c_.reshape(c_.range(s_.length), {1, s_.length});
    return c_.add(c_.reshape(before_, {s_.batch, 1}), row);
  }

  /// The heads of a query or key, normalised and rotated.
  V rotated(V v, int64_t heads, size_t norm) {
    V split = split_heads(c_, v, heads);
    if (c_.has(norm)) {
      const char* name = norm == kQueryNorm ? "q_norm_epsilon" : "k_norm_epsilon";
      const float epsilon = c_.attrs().get_or(name, c_.attrs().get_float("qk_norm_epsilon"));
      AttrMap a;
      a.set("epsilon", epsilon);
      split = c_.op("RMSNormalization", {split, c_.in(norm)}, std::move(a));
    }
    if (c_.attrs().get_int("do_rotary") == 0) return split;
    AttrMap a;
    a.set("interleaved", c_.attrs().get_int("rotary_interleaved"));
    a.set("rotary_embedding_dim", rotated_size());
    return c_.op("RotaryEmbedding", {split, c_.in(kCos), c_.in(kSin), positions()}, std::move(a));
  }

  /// `before_`, which must be all rows of the caches in each batch: new rows go behind them. The
  /// index of the Gather is out of range if there is padding, which fails the run.
  V without_padding(const Expr& past) {
    const V rows = c_.expr_value(past, DType::I64);
    AttrMap a;
    a.set("axis", int64_t{0});
    return c_.add(
        c_.op("Gather", {c_.ints({0}), c_.op("Abs", {c_.sub(before_, rows)})}, std::move(a)), rows);
  }

  /// The cache with the new rows at their positions, extended to the total length.
  V with_past(V v, size_t past) {
    if (!c_.has(past) || !c_.ok()) return v;
    V cache = c_.in(past);
    if (s_.appends) return c_.concat({cache, v}, 2);
    const Expr more = s_.present - c_.shape(cache)[2];
    if (!more.is_const(0)) {
      AttrMap a;
      a.set("mode", std::string("constant"));
      std::vector<Expr> pads(8, Expr(0));
      pads[6] = more;
      a.set("pads", std::move(pads));
      cache = c_.op("Pad", {cache}, std::move(a));
    }
    AttrMap a;
    a.set("axis", int64_t{2});
    a.set("mode", std::string("linear"));
    return c_.op("TensorScatter", {cache, v, before_}, std::move(a));
  }

  /// Which keys count for each row: bool that broadcasts to [batch, heads, length, keys].
  V visible(const Expr& keys, V valid) {
    const auto of_batch = [&](V v) {
      return c_.reshape(c_.cast(v, DType::I32), {s_.batch, 1, 1, 1});
    };
    const V key = c_.positions(keys);
    if (c_.attrs().get_int("causal") == 0) return c_.op("Less", {key, of_batch(valid)});
    const V row = c_.add(c_.reshape(c_.positions(s_.length), {s_.length, 1}), of_batch(before_));
    const V before = c_.op("LessOrEqual", {key, row});
    const int64_t window = c_.attrs().get_int("local_window_size");
    if (window <= 0) return before;
    const V size = c_.scalar(DType::I32, static_cast<double>(window));
    return c_.op("And", {before, c_.op("Less", {c_.sub(row, key), size})});
  }

  /// Attention in which each row also gives weight to a key without a value, the sink, whose score
  /// is that of the head or 0.
  V attention_with_sink(V q, V keys, V values, V valid) {
    if (!c_.ok()) return q;
    const DType t = c_.dtype(q), inner = accumulate_dtype(t);
    const Expr count = c_.shape(keys)[2], rows = Expr(s_.heads / s_.kv_heads) * s_.length;
    const V queries = c_.reshape(c_.cast(q, inner), {s_.batch, s_.kv_heads, rows, s_.size});
    const float given = c_.attrs().get_float("scale"), cap = c_.attrs().get_float("softcap");
    const double scale =
        given != 0 ? static_cast<double>(given) : 1 / std::sqrt(static_cast<double>(s_.size));
    V scores =
        c_.mul(c_.op("MatMul", {queries, c_.transpose(c_.cast(keys, inner), {0, 1, 3, 2})}), scale);
    if (cap > 0) {
      const auto most = static_cast<double>(cap);
      scores = c_.mul(c_.op("Tanh", {c_.div(scores, most)}), most);
    }
    scores = c_.reshape(scores, {s_.batch, s_.heads, s_.length, count});
    const V none = c_.scalar(inner, -std::numeric_limits<double>::infinity());
    scores = c_.where(visible(count, valid), scores, none);
    const V sink = c_.has(kSink) ? c_.cast(c_.reshape(c_.in(kSink), {s_.heads, 1, 1}), inner)
                                 : c_.scalar(inner, 0);
    const V most = c_.max(c_.reduce("ReduceMax", scores, {3}), sink);
    const V e = c_.op("Exp", {c_.sub(scores, most)});
    const V sum = c_.add(c_.reduce("ReduceSum", e, {3}), c_.op("Exp", {c_.sub(sink, most)}));
    const V weights = c_.reshape(c_.div(e, sum), {s_.batch, s_.kv_heads, rows, count});
    const V y = c_.op("MatMul", {weights, c_.cast(values, inner)});
    return c_.cast(c_.reshape(y, {s_.batch, s_.heads, s_.length, s_.size}), t);
  }

  Composer c_;
  GroupedSizes s_;
  V before_ = graph::kNone;
};

Result<bool> decompose(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(GroupedSizes s, sizes_of(ctx));
  return GroupedWriter(rw, std::move(s)).write();
}

// append_rows is ours: compiling with grow_states sets it.
constexpr AttrDecl kGroupedQueryAttrs[] = {int_attr("append_rows", 0),
                                           int_attr("causal", 1),
                                           int_attr("do_rotary", 0),
                                           optional_attr("k_norm_epsilon", AttrType::Float),
                                           string_attr("k_quant_type", "NONE"),
                                           optional_attr("kv_cache_bit_width", AttrType::Int),
                                           required_attr("kv_num_heads", AttrType::Int),
                                           int_attr("local_window_size", -1),
                                           required_attr("num_heads", AttrType::Int),
                                           optional_attr("q_norm_epsilon", AttrType::Float),
                                           float_attr("qk_norm_epsilon", 1e-6F),
                                           int_attr("qk_output", 0),
                                           int_attr("rotary_interleaved", 0),
                                           float_attr("scale", 0.0F),
                                           int_attr("sliding_window_cache", 0),
                                           int_attr("smooth_softmax", -1),
                                           float_attr("softcap", 0.0F),
                                           string_attr("v_quant_type", "NONE")};

}  // namespace

std::span<const OpDef> microsoft_grouped_query_ops() {
  static constexpr OpDef kOps[] = {{.name = "GroupQueryAttention",
                                    .domain = kMicrosoft,
                                    .infer = infer,
                                    .decompose = decompose,
                                    .min_inputs = 1,
                                    .max_inputs = 17,
                                    .max_outputs = 3,
                                    .attributes = kGroupedQueryAttrs}};
  return kOps;
}

}  // namespace reprise::ops
