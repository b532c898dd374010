// Decomposes Attention and RotaryEmbedding into matrix multiplications, a softmax and scalar
// operations. lower/attention_match.cpp recognises the result of Attention.
#include <array>
#include <cmath>
#include <limits>

#include "codegen/ops/math/softmax.h"
#include "codegen/ops/row/dims.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

struct Heads {
  Expr batch, heads, length, size;
};

/// Reads [batch, heads, length, size], or [batch, length, heads * size] and the number of heads.
Result<Heads> heads_of(const InferContext& ctx, size_t i, const char* role, const char* attr) {
  RP_TRY(require_float(ctx, i));
  const Shape& s = ctx.shape(i);
  if (s.size() == 4) return Heads{s[0], s[1], s[2], s[3]};
  if (s.size() != 3) {
    return ctx.invalid(std::string(role) + " must have rank 3 or 4, has shape " + ctx.str(s));
  }
  const int64_t heads = ctx.attrs().get_int(attr);
  if (heads < 1) {
    return ctx.invalid(std::string(role) + " of rank 3 needs the attribute '" + attr + "'");
  }
  if (s[2].is_const() && s[2].value() % heads != 0) {
    return ctx.invalid(std::to_string(heads) + " heads do not divide the last dim of " + role +
                       " " + ctx.str(s));
  }
  return Heads{s[0], heads, s[1], Expr::floordiv(s[2], heads)};
}

/// The number of rows of the cache [batch, heads, past, size] and of the new rows, added.
Result<Expr> total_length(const InferContext& ctx, size_t past, const Heads& now) {
  if (!ctx.has_input(past)) return now.length;
  if (ctx.rank(past) != 4) {
    return ctx.invalid("a cache must have rank 4, has shape " + ctx.str(ctx.shape(past)));
  }
  const Shape& s = ctx.shape(past);
  RP_TRY(ctx.unify(s[0], now.batch, "batches of a cache and the new rows").status());
  RP_TRY(ctx.unify(s[1], now.heads, "heads of a cache and the new rows").status());
  RP_TRY(ctx.unify(s[3], now.size, "head sizes of a cache and the new rows").status());
  return ctx.shape(past)[2] + now.length;
}

/// A mask broadcasts to [batch, heads, rows, keys]. If it has fewer keys, it hides the others. It
/// is bool, or numbers that are added to the scores.
Status check_mask(const InferContext& ctx, const Shape& scores) {
  if (!ctx.has_input(3)) return {};
  if (ctx.dtype(3) != DType::Bool && !is_int(ctx.dtype(3))) RP_TRY(require_float(ctx, 3));
  const Shape& mask = ctx.shape(3);
  if (mask.empty() || mask.size() > 4) {
    return ctx.invalid("attn_mask must have rank 1 to 4, has shape " + ctx.str(mask));
  }
  bool fits = broadcast_shape(ctx, Shape(mask.begin(), mask.end() - 1),
                              Shape(scores.begin(), scores.end() - 1), "attn_mask")
                  .ok();
  const Expr &width = mask.back(), &keys = scores.back();
  const auto table = ctx.graph_symbols();
  if (fits && !proven_le(width, keys, table)) {
    fits = ctx.unify(min_of(width, keys, table), width, "columns of attn_mask and keys").ok();
  }
  if (fits) return {};
  return ctx.invalid("attn_mask " + ctx.str(mask) + " does not broadcast to " + ctx.str(scores));
}

/// nonpad_kv_seqlen holds the number of valid keys of each batch.
Status check_lengths(const InferContext& ctx, const Expr& batch) {
  if (!ctx.has_input(6)) return {};
  RP_TRY(require_int(ctx, 6));
  const Shape& s = ctx.shape(6);
  if (s.size() != 1) {
    return ctx.invalid("nonpad_kv_seqlen must have rank 1, has shape " + ctx.str(s));
  }
  return ctx.unify(s[0], batch, "batches of Q and nonpad_kv_seqlen").status();
}

/// The number of heads may follow from later nodes, so decomposition checks it again.
Status check_heads(const InferContext& ctx, const Expr& q, const Expr& kv) {
  const bool known = q.is_const() && kv.is_const();
  if (!known || (kv.value() >= 1 && q.value() % kv.value() == 0)) return {};
  return ctx.invalid(kv.str({}) + " heads of K do not divide the " + q.str({}) + " heads of Q");
}

Status infer_attention(InferContext& ctx) {
  RP_ASSIGN(const Heads q, heads_of(ctx, 0, "Q", "q_num_heads"));
  RP_ASSIGN(const Heads k, heads_of(ctx, 1, "K", "kv_num_heads"));
  RP_ASSIGN(const Heads v, heads_of(ctx, 2, "V", "kv_num_heads"));
  RP_ASSIGN(Expr batch, ctx.unify(q.batch, k.batch, "batches of Q and K"));
  RP_ASSIGN(batch, ctx.unify(batch, v.batch, "batches of Q and V"));
  RP_TRY(ctx.unify(q.size, k.size, "head sizes of Q and K").status());
  RP_ASSIGN(const Expr kv_heads, ctx.unify(k.heads, v.heads, "heads of K and V"));
  RP_TRY(ctx.unify(k.length, v.length, "lengths of K and V").status());
  RP_TRY(check_heads(ctx, q.heads, kv_heads));
  RP_ASSIGN(const Expr keys, total_length(ctx, 4, k));
  RP_ASSIGN(const Expr values, total_length(ctx, 5, v));
  RP_TRY(ctx.unify(keys, values, "lengths of K and V with their caches").status());
  RP_TRY(check_lengths(ctx, batch));
  RP_TRY(check_mask(ctx, {batch, q.heads, q.length, keys}));
  ctx.set_output(0, ctx.dtype(0),
                 ctx.rank(0) == 3 ? Shape{batch, q.length, q.heads * v.size}
                                  : Shape{batch, q.heads, q.length, v.size});
  ctx.set_output(1, ctx.dtype(1), {batch, k.heads, keys, k.size});
  ctx.set_output(2, ctx.dtype(2), {batch, v.heads, values, v.size});
  ctx.set_output(3, ctx.dtype(0), {batch, q.heads, q.length, keys});
  return {};
}

/// Writes the attention of one node. Operands are [batch, heads, length, size]. Heads that share
/// keys become rows of one GEMM, which then reads the keys once. The compute type is F32, or F64
/// for F64 operands, and does not depend on softmax_precision.
class Attention {
 public:
  Attention(Rewriter& rw, const Heads& q, const Heads& k, const Heads& v)
      : c_(rw), q_(q), k_(k), v_(v), groups_(q.heads.value() / k.heads.value()) {}

  Result<bool> write() {
    type_ = accumulate_dtype(c_.dtype(c_.in(0)));
    flat_ = c_.shape(c_.in(0)).size() == 3;
    const V keys = with_past(split_heads(c_.in(1), k_), 4);
    const V values = with_past(split_heads(c_.in(2), v_), 5);
    if (!c_.ok()) return c_.finish();
    key_count_ = c_.shape(keys)[2];
    rows_ = Expr(groups_) * q_.length;
    const V queries = c_.reshape(split_heads(c_.in(0), q_), {q_.batch, k_.heads, rows_, q_.size});
    const V scores = c_.op(
        "MatMul", {c_.cast(queries, type_), c_.transpose(c_.cast(keys, type_), {0, 1, 3, 2})});
    const V weights = softmax(apply_mask(apply_softcap(c_.mul(scores, scale()))));
    const V y = c_.op("MatMul", {weights, c_.cast(values, type_)});
    if (c_.has_output(3)) c_.replace(3, qk_output());
    c_.replace(0, merge_heads(c_.cast(y, c_.dtype(c_.in(0)))));
    if (c_.has_output(1)) c_.replace(1, keys);
    if (c_.has_output(2)) c_.replace(2, values);
    return c_.finish();
  }

 private:
  double scale() {
    if (c_.attrs().has("scale")) return static_cast<double>(c_.attrs().get_float("scale"));
    return 1 / std::sqrt(static_cast<double>(q_.size.value()));
  }

  V split_heads(V v, const Heads& h) {
    if (!c_.ok() || c_.shape(v).size() == 4) return v;
    return c_.transpose(c_.reshape(v, {h.batch, h.length, h.heads, h.size}), {0, 2, 1, 3});
  }
  V with_past(V v, size_t past) { return c_.has(past) ? c_.concat({c_.in(past), v}, 2) : v; }

  /// Reshapes the rows of heads to the shape of Q.
  V merge_heads(V y) {
    y = c_.reshape(y, {q_.batch, q_.heads, q_.length, v_.size});
    if (!flat_) return y;
    return c_.reshape(c_.transpose(y, {0, 2, 1, 3}), {q_.batch, q_.length, q_.heads * v_.size});
  }

  V apply_softcap(V scores) {
    modes_[0] = scores;
    const auto cap = static_cast<double>(c_.attrs().get_float("softcap"));
    if (cap > 0) scores = c_.mul(c_.op("Tanh", {c_.div(scores, cap)}), cap);
    modes_[1] = scores;
    return scores;
  }

  V apply_mask(V scores) {
    if (c_.has(3) && c_.dtype(c_.in(3)) == DType::Bool) restrict_to(mask(false));
    if (c_.has(3) && c_.dtype(c_.in(3)) != DType::Bool) {
      const double hidden = -std::numeric_limits<double>::infinity();
      const V added = c_.cast(mask(hidden), type_), none = c_.scalar(type_, hidden);
      // A hidden score stays hidden even if the score itself is infinite.
      scores = c_.where(c_.op("Equal", {added, none}), none, c_.add(scores, added));
      may_hide_row_ = true;
    }
    positions();
    if (visible_ != graph::kNone) {
      scores =
          c_.where(visible_, scores, c_.scalar(type_, -std::numeric_limits<double>::infinity()));
      may_hide_row_ = true;
    }
    modes_[2] = scores;
    return scores;
  }

  void restrict_to(V condition) {
    visible_ = visible_ == graph::kNone ? condition : c_.op("And", {visible_, condition});
  }

  /// The mask for the rows of `queries`, extended to the number of keys.
  V mask(double hidden) {
    V m = is_int(c_.dtype(c_.in(3))) ? c_.cast(c_.in(3), type_) : c_.in(3);
    Shape s = c_.shape(m);
    s.insert(s.begin(), 4 - s.size(), Expr(1));
    m = c_.reshape(m, s);
    if (!(s[3] == key_count_)) {
      AttrMap a;
      a.set("mode", std::string("constant"));
      std::vector<Expr> pads(8, Expr(0));
      pads[7] = key_count_ - s[3];
      a.set("pads", std::move(pads));
      m = c_.op("Pad", {m, c_.scalar(c_.dtype(m), hidden)}, std::move(a));
    }
    const bool one_head = s[1].is_const(1);
    if (groups_ == 1 || (one_head && s[2].is_const(1))) return m;
    m = c_.expand(m, {s[0], one_head ? Expr(groups_) : q_.heads, q_.length, key_count_});
    return c_.reshape(m, {s[0], one_head ? Expr(1) : k_.heads, rows_, key_count_});
  }

  /// Applies causality, windows and padding.
  void positions() {
    const int64_t left = c_.attrs().get_int("left_window_size");
    const int64_t right = c_.attrs().get_int("right_window_size");
    const bool causal = c_.attrs().get_int("is_causal") != 0;
    if (!causal && left < 0 && right < 0 && !c_.has(6)) return;
    const V key = c_.positions(key_count_);
    V valid = graph::kNone;  // [batch, 1, 1, 1]
    if (c_.has(6)) {
      const V last = c_.expr_value(key_count_, DType::I64);
      const V count = c_.min(c_.max(c_.cast(c_.in(6), DType::I64), 0.0), last);
      valid = c_.reshape(c_.cast(count, DType::I32), {q_.batch, 1, 1, 1});
      restrict_to(c_.op("Less", {key, valid}));
    }
    if (!causal && left < 0 && right < 0) return;
    const V row = c_.add(rows_of_queries(), first_position(valid));
    if (causal) restrict_to(c_.op("LessOrEqual", {key, row}));
    if (left >= 0) restrict_to(c_.op("LessOrEqual", {c_.sub(row, key), window(left)}));
    if (right >= 0) restrict_to(c_.op("LessOrEqual", {c_.sub(key, row), window(right)}));
  }
  V window(int64_t size) { return c_.scalar(DType::I32, static_cast<double>(size)); }

  /// [rows, 1]: the position of the query of each row.
  V rows_of_queries() {
    V row = c_.reshape(c_.positions(q_.length), {1, q_.length, 1});
    row = c_.expand(row, {groups_, q_.length, 1});
    return c_.reshape(row, {rows_, 1});
  }

  /// The number of keys before the first query, from earlier runs or the used part of a cache.
  V first_position(V valid) {
    if (c_.has(4) || valid == graph::kNone)
      return c_.expr_value(key_count_ - k_.length, DType::I32);
    return c_.sub(valid, c_.expr_value(q_.length, DType::I32));
  }

  /// A row in which all keys are hidden gets weights of 0. Values are multiplied by weights of 0 as
  /// well, so hidden values must be finite, here as in fused kernels and on the host.
  V softmax(V x) {
    const Softmax s(c_, x, {3});
    V p = s.value(c_);
    if (may_hide_row_) {
      const V none = c_.scalar(type_, -std::numeric_limits<double>::infinity());
      p = c_.where(c_.op("Equal", {s.max, none}), c_.scalar(type_, 0), p);
    }
    modes_[3] = p;
    return p;
  }

  V qk_output() {
    const int64_t mode = c_.attrs().get_int("qk_matmul_output_mode");
    const V v = modes_[mode >= 0 && mode < 4 ? static_cast<size_t>(mode) : 0];
    return c_.cast(c_.reshape(v, {q_.batch, q_.heads, q_.length, key_count_}), c_.dtype(c_.in(0)));
  }

  OpBuilder c_;
  Heads q_, k_, v_;
  int64_t groups_;  // heads of Q that share keys
  DType type_ = DType::F32;
  bool flat_ = false, may_hide_row_ = false;
  Expr key_count_, rows_;
  V visible_ = graph::kNone;
  std::array<V, 4> modes_{};  // the fourth output, by qk_matmul_output_mode
};

Result<bool> attention(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const Heads q, heads_of(ctx, 0, "Q", "q_num_heads"));
  RP_ASSIGN(const Heads k, heads_of(ctx, 1, "K", "kv_num_heads"));
  RP_ASSIGN(const Heads v, heads_of(ctx, 2, "V", "kv_num_heads"));
  RP_TRY(check_heads(ctx, q.heads, k.heads));
  if (!q.heads.is_const() || !k.heads.is_const() || !q.size.is_const())
    return rw.keep("the number of heads, or their size, varies");
  return Attention(rw, q, k, v).write();
}

/// The number of elements of a head that are rotated.
Result<int64_t> rotated_size(const InferContext& ctx, const Heads& x) {
  const int64_t size = x.size.value();
  const int64_t given = ctx.attrs().get_int("rotary_embedding_dim");
  const int64_t rotated = given == 0 ? size : given;
  if (rotated >= 0 && rotated <= size && rotated % 2 == 0) return rotated;
  return ctx.invalid("rotates " + std::to_string(rotated) + " of " + std::to_string(size) +
                     " elements: the number must be even and no larger");
}

Status infer_rotary_embedding(InferContext& ctx) {
  RP_ASSIGN(const Heads x, heads_of(ctx, 0, "X", "num_heads"));
  const Shape& cache = ctx.shape(1);
  const bool by_position = ctx.has_input(3);
  if (ctx.rank(1) != (by_position ? 2 : 3) || ctx.rank(2) != ctx.rank(1)) {
    return ctx.invalid("cos_cache " + ctx.str(cache) + " and sin_cache " + ctx.str(ctx.shape(2)) +
                       " must have rank 3, or 2 with position_ids");
  }
  for (size_t d = 0; d < cache.size(); ++d)
    RP_TRY(ctx.unify(cache[d], ctx.shape(2)[d], "dims of cos_cache and sin_cache").status());
  if (x.size.is_const()) {
    RP_ASSIGN(const int64_t rotated, rotated_size(ctx, x));
    RP_TRY(ctx.unify(cache.back(), rotated / 2,
                     "half of the rotated elements, and the columns of the caches")
               .status());
  }
  const Shape& positions = by_position ? ctx.shape(3) : cache;
  if (by_position && positions.size() != 2) {
    return ctx.invalid("position_ids must have rank 2, has shape " + ctx.str(positions));
  }
  RP_TRY(ctx.unify(positions[0], x.batch, "batches of X and its positions").status());
  RP_TRY(ctx.unify(positions[1], x.length, "lengths of X and its positions").status());
  return infer_same_float(ctx);
}

/// Rotates pairs of elements by the angles of their positions, and copies the other elements.
Result<bool> rotary_embedding(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const Heads h, heads_of(ctx, 0, "X", "num_heads"));
  if (!h.size.is_const()) return rw.keep("the size of a head varies");
  RP_ASSIGN(const int64_t rotated, rotated_size(ctx, h));
  const int64_t half = rotated / 2, rest = h.size.value() - rotated;
  OpBuilder c(rw);
  const bool flat = c.shape(c.in(0)).size() == 3;
  const DType type = accumulate_dtype(c.dtype(c.in(0)));
  const Shape split =
      flat ? Shape{h.batch, h.length, h.heads, h.size} : Shape{h.batch, h.heads, h.length, h.size};
  const Shape angles = flat ? Shape{h.batch, h.length, 1, half} : Shape{h.batch, 1, h.length, half};
  const V x = c.cast(c.reshape(c.in(0), split), type);
  const auto angle = [&](size_t i) {
    AttrMap a;
    a.set("axis", int64_t{0});
    const V rows = c.has(3) ? c.op("Gather", {c.in(i), c.in(3)}, std::move(a)) : c.in(i);
    return c.reshape(c.cast(rows, type), angles);
  };
  const V cosine = angle(1), sine = angle(2);
  const bool interleaved = c.attrs().get_int("interleaved") != 0;
  const auto member = [&](int64_t first) {
    if (!interleaved) return c.slice_axis(x, 3, first * half, half);
    Shape sizes = split;
    sizes[3] = half;
    return c.slice(x, {0, 0, 0, first}, {1, 1, 1, 2}, std::move(sizes));
  };
  const V a = member(0), b = member(1);
  V first = c.sub(c.mul(cosine, a), c.mul(sine, b));
  V second = c.add(c.mul(sine, a), c.mul(cosine, b));
  if (interleaved) {
    Shape pair = split;
    pair[3] = half;
    pair.push_back(1);
    first = c.concat({c.reshape(first, pair), c.reshape(second, pair)}, 4);
    pair.pop_back();
    pair[3] = rotated;
    first = c.reshape(first, pair);
  } else {
    first = c.concat({first, second}, 3);
  }
  if (rest > 0) first = c.concat({first, c.slice_axis(x, 3, rotated, rest)}, 3);
  c.replace(0, c.cast(c.reshape(first, c.shape(c.in(0))), c.dtype(c.in(0))));
  return c.finish();
}

constexpr AttrDecl kAttentionAttrs[] = {int_attr("is_causal", 0),
                                        int_attr("kv_num_heads", 0),
                                        int_attr("left_window_size", -1),
                                        int_attr("q_num_heads", 0),
                                        int_attr("qk_matmul_output_mode", 0),
                                        int_attr("right_window_size", -1),
                                        optional_attr("scale", AttrType::Float),
                                        float_attr("softcap", 0.0F),
                                        optional_attr("softmax_precision", AttrType::Int)};
constexpr AttrDecl kRotaryEmbeddingAttrs[] = {int_attr("interleaved", 0), int_attr("num_heads", 0),
                                              int_attr("rotary_embedding_dim", 0)};

}  // namespace

std::span<const OpDef> attention_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "Attention",
       .infer = infer_attention,
       .decompose = attention,
       .min_opset = 23,
       .min_inputs = 3,
       .max_inputs = 7,
       .max_outputs = 4,
       .attributes = kAttentionAttrs},
      {.name = "RotaryEmbedding",
       .infer = infer_rotary_embedding,
       .decompose = rotary_embedding,
       .min_opset = 23,
       .min_inputs = 3,
       .max_inputs = 4,
       .attributes = kRotaryEmbeddingAttrs},
  };
  return kOps;
}

}  // namespace reprise::ops
