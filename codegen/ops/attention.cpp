// Attention and RotaryEmbedding: inference only, they run on the host.
#include "codegen/ops/families.h"
#include "codegen/ops/support.h"

namespace reprise::ops {

namespace {

struct Heads {
  Expr batch, heads, length, size;
};

/// [batch, heads, length, size], or [batch, length, heads * size] with the number of heads.
Result<Heads> heads_of(const InferContext& ctx, size_t i, const char* role, const char* attr) {
  RP_TRY(require_float(ctx, i));
  const Shape& s = ctx.shape(i);
  if (s.size() == 4) return Heads{s[0], s[1], s[2], s[3]};
  if (s.size() != 3) {
    return ctx.invalid(std::string(role) + " must have rank 3 or 4, has shape " + ctx.str(s));
  }
  const int64_t heads = ctx.attrs().get_int(attr, 0);
  if (heads < 1) {
    return ctx.invalid(std::string(role) + " of rank 3 needs the attribute '" + attr + "'");
  }
  if (s[2].is_const() && s[2].value() % heads != 0) {
    return ctx.invalid(std::to_string(heads) + " heads do not divide the last dim of " + role +
                       " " + ctx.str(s));
  }
  return Heads{s[0], heads, s[1], Expr::floordiv(s[2], heads)};
}

/// Rows of the cache [batch, heads, past, size] and the new ones.
Result<Expr> total_length(const InferContext& ctx, size_t past, const Heads& now) {
  if (!ctx.has_input(past)) return now.length;
  if (ctx.rank(past) != 4) {
    return ctx.invalid("a cache must have rank 4, has shape " + ctx.str(ctx.shape(past)));
  }
  return ctx.shape(past)[2] + now.length;
}

Status infer_attention(InferContext& ctx) {
  RP_ASSIGN(const Heads q, heads_of(ctx, 0, "Q", "q_num_heads"));
  RP_ASSIGN(const Heads k, heads_of(ctx, 1, "K", "kv_num_heads"));
  RP_ASSIGN(const Heads v, heads_of(ctx, 2, "V", "kv_num_heads"));
  RP_ASSIGN(Expr batch, ctx.unify(q.batch, k.batch, "batches of Q and K"));
  RP_ASSIGN(batch, ctx.unify(batch, v.batch, "batches of Q and V"));
  RP_TRY(ctx.unify(q.size, k.size, "head sizes of Q and K").status());
  RP_TRY(ctx.unify(k.heads, v.heads, "heads of K and V").status());
  RP_TRY(ctx.unify(k.length, v.length, "lengths of K and V").status());
  RP_ASSIGN(const Expr keys, total_length(ctx, 4, k));
  RP_ASSIGN(const Expr values, total_length(ctx, 5, v));
  ctx.set_output(0, ctx.dtype(0),
                 ctx.rank(0) == 3 ? Shape{batch, q.length, q.heads * v.size}
                                  : Shape{batch, q.heads, q.length, v.size});
  ctx.set_output(1, ctx.dtype(1), {batch, k.heads, keys, k.size});
  ctx.set_output(2, ctx.dtype(2), {batch, v.heads, values, v.size});
  ctx.set_output(3, ctx.dtype(0), {batch, q.heads, q.length, keys});
  return {};
}

Status infer_rotary_embedding(InferContext& ctx) {
  if (ctx.rank(0) != 3 && ctx.rank(0) != 4) {
    return ctx.invalid("X must have rank 3 or 4, has shape " + ctx.str(ctx.shape(0)));
  }
  return infer_same_float(ctx);
}

}  // namespace

std::span<const OpDef> attention_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "Attention",
       .infer = infer_attention,
       .min_opset = 23,
       .attributes = "is_causal kv_num_heads left_window_size q_num_heads qk_matmul_output_mode "
                     "right_window_size scale softcap softmax_precision",
       .min_inputs = 3,
       .max_inputs = 7,
       .max_outputs = 4},
      {.name = "RotaryEmbedding",
       .infer = infer_rotary_embedding,
       .min_opset = 23,
       .attributes = "interleaved num_heads rotary_embedding_dim",
       .min_inputs = 3,
       .max_inputs = 4},
  };
  return kOps;
}

}  // namespace reprise::ops
