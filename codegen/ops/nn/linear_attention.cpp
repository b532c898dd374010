// LinearAttention, and the causal convolution that models apply before it. Both carry a state from
// one call to the next.
#include <cmath>

#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

// --- LinearAttention -----------------------------------------------------------------------------

enum LinearOperand : size_t {
  kLinearQuery,
  kLinearKey,
  kLinearValue,
  kLinearPast,
  kLinearDecay,
  kLinearBetaInput
};

/// What the attribute update_rule asks for.
struct UpdateRule {
  bool gated = false;  // the state decays
  bool delta = false;  // what the state holds already is not added again
};

Result<UpdateRule> update_rule(const InferContext& ctx) {
  const std::string rule = ctx.attrs().get_string("update_rule");
  const UpdateRule r{rule == "gated" || rule == "gated_delta",
                     rule == "delta" || rule == "gated_delta"};
  if (!r.gated && !r.delta && rule != "linear") {
    return ctx.invalid("update_rule is '" + rule +
                       "', must be linear, gated, delta or gated_delta");
  }
  if (r.gated != ctx.has_input(kLinearDecay) || r.delta != ctx.has_input(kLinearBetaInput)) {
    return ctx.invalid("update_rule '" + rule + "' takes decay: " + (r.gated ? "yes" : "no") +
                       ", beta: " + (r.delta ? "yes" : "no") +
                       "; given are decay: " + (ctx.has_input(kLinearDecay) ? "yes" : "no") +
                       ", beta: " + (ctx.has_input(kLinearBetaInput) ? "yes" : "no"));
  }
  return r;
}

struct LinearHeads {
  int64_t query = 0;
  int64_t key = 0;
};

Result<LinearHeads> heads_of(const InferContext& ctx) {
  const LinearHeads h{ctx.attrs().get_int("q_num_heads"), ctx.attrs().get_int("kv_num_heads")};
  if (h.query > 0 && h.key > 0 && h.query % h.key == 0) return h;
  return ctx.invalid("q_num_heads is " + std::to_string(h.query) +
                     ", must be a positive multiple of kv_num_heads, which is " +
                     std::to_string(h.key));
}

/// The size of a head in a packed last dim.
Result<Expr> head_size(const InferContext& ctx, size_t i, int64_t heads) {
  const Expr& packed = ctx.shape(i)[2];
  if (packed.is_const() && packed.value() % heads != 0) {
    return ctx.invalid("the last dim of '" + ctx.input(i).name + "' " + ctx.str(ctx.shape(i)) +
                       " is not a multiple of " + std::to_string(heads) + " heads");
  }
  return Expr::floordiv(packed, Expr(heads));
}

/// decay is [B, T, heads] or [B, T, heads * d_k], beta [B, T, heads] or [B, T, 1].
Status check_gates(const InferContext& ctx, const LinearHeads& h, const Expr& key_size) {
  for (const size_t i : {kLinearDecay, kLinearBetaInput}) {
    if (!ctx.has_input(i)) continue;
    const Expr heads(h.key);
    const Expr other = i == kLinearDecay ? heads * key_size : Expr(1);
    const Expr& last = ctx.shape(i)[2];
    if (last == heads || last == other) continue;
    return ctx.invalid("the last dim of '" + ctx.input(i).name + "' " + ctx.str(ctx.shape(i)) +
                       " must be " + heads.str(ctx.graph_symbols()) + " or " +
                       other.str(ctx.graph_symbols()));
  }
  return {};
}

/// query [B, T, Hq * d_k], key [B, T, H * d_k], value [B, T, H * d_v] and the state [B, H, d_k,
/// d_v] give [B, T, Hq * d_v] and the next state.
Status infer_linear_attention(InferContext& ctx) {
  RP_TRY(require_float(ctx, kLinearQuery));
  RP_TRY(update_rule(ctx).status());
  RP_ASSIGN(const LinearHeads h, heads_of(ctx));
  for (const size_t i : {kLinearQuery, kLinearKey, kLinearValue, kLinearDecay, kLinearBetaInput}) {
    if (!ctx.has_input(i)) continue;
    if (ctx.dtype(i) != ctx.dtype(kLinearQuery) || ctx.rank(i) != 3) {
      return ctx.invalid("input '" + ctx.input(i).name + "' must be a " +
                         std::string(name_of(ctx.dtype(kLinearQuery))) + " tensor of rank 3, is " +
                         std::string(name_of(ctx.dtype(i))) + ctx.str(ctx.shape(i)));
    }
    RP_TRY(ctx.unify(ctx.shape(i)[0], ctx.shape(kLinearQuery)[0], "batches").status());
    RP_TRY(
        ctx.unify(ctx.shape(i)[1], ctx.shape(kLinearQuery)[1], "lengths of the sequence").status());
  }
  RP_ASSIGN(const Expr query_size, head_size(ctx, kLinearQuery, h.query));
  RP_ASSIGN(const Expr key_size, head_size(ctx, kLinearKey, h.key));
  RP_ASSIGN(const Expr value_size, head_size(ctx, kLinearValue, h.key));
  RP_TRY(ctx.unify(query_size, key_size, "head sizes of query and key").status());
  RP_TRY(check_gates(ctx, h, key_size));
  const Shape state{ctx.shape(kLinearQuery)[0], Expr(h.key), key_size, value_size};
  DType state_dtype = ctx.dtype(kLinearQuery);
  if (ctx.has_input(kLinearPast)) {
    if (ctx.rank(kLinearPast) != 4 || !is_float(ctx.dtype(kLinearPast))) {
      return ctx.invalid("past_state must be a float tensor " + ctx.str(state) + ", is " +
                         std::string(name_of(ctx.dtype(kLinearPast))) +
                         ctx.str(ctx.shape(kLinearPast)));
    }
    for (size_t d = 0; d < 4; ++d)
      RP_TRY(ctx.unify(ctx.shape(kLinearPast)[d], state[d], "dims of past_state").status());
    state_dtype = ctx.dtype(kLinearPast);
  }
  const Shape& query = ctx.shape(kLinearQuery);
  ctx.set_output(0, ctx.dtype(kLinearQuery), {query[0], query[1], value_size * Expr(h.query)});
  ctx.set_output(1, state_dtype, state);
  return {};
}

/// The operands of a decomposition, in one dtype.
struct LinearAttention {
  OpBuilder& c;
  UpdateRule rule;
  LinearHeads heads;
  Expr batch, key_size, value_size;

  /// Time t of input i, packed as [B, T, anything], in this shape.
  V at(size_t i, int64_t t, Shape shape) const {
    const V x = c.slice_axis(c.in(i), 1, Expr(t), 1);
    return c.reshape(c.cast(x, accumulate_dtype(c.dtype(c.in(kLinearQuery)))), std::move(shape));
  }
  /// The state after time t.
  V advance(V state, int64_t t) const {
    const Expr h(heads.key);
    if (rule.gated) {
      const bool one_each = c.shape(c.in(kLinearDecay))[2] == h;
      const V decay = at(kLinearDecay, t, {batch, h, one_each ? Expr(1) : key_size, 1});
      state = c.mul(state, c.op("Exp", {decay}));
    }
    V value = at(kLinearValue, t, {batch, h, 1, value_size});
    if (rule.delta) {
      const V held = c.op("MatMul", {at(kLinearKey, t, {batch, h, 1, key_size}), state});
      const V beta = at(kLinearBetaInput, t, {batch, c.shape(c.in(kLinearBetaInput))[2], 1, 1});
      value = c.mul(c.sub(value, held), beta);
    }
    return c.add(state, c.mul(at(kLinearKey, t, {batch, h, key_size, 1}), value));
  }
  /// The result at time t, [B, 1, Hq * d_v]. A head of keys serves several of queries.
  V read(V state, int64_t t, double scale) const {
    const Expr group(heads.query / heads.key);
    const V query = at(kLinearQuery, t, {batch, Expr(heads.key), group, key_size});
    const V result = c.mul(c.op("MatMul", {query, state}), scale);
    return c.reshape(result, {batch, Expr(1), Expr(heads.query) * value_size});
  }
};

/// One step after another, for few of them. The host runs longer sequences.
Result<bool> linear_attention(Rewriter& rw) {
  constexpr int64_t kMostSteps = 16;
  const InferContext ctx(rw.graph(), rw.node());
  OpBuilder c(rw);
  RP_ASSIGN(const UpdateRule rule, update_rule(ctx));
  RP_ASSIGN(const LinearHeads heads, heads_of(ctx));
  const Shape state_shape{ctx.shape(kLinearQuery)[0], Expr(heads.key),
                          Expr::floordiv(ctx.shape(kLinearKey)[2], Expr(heads.key)),
                          Expr::floordiv(ctx.shape(kLinearValue)[2], Expr(heads.key))};
  const Expr steps = ctx.shape(kLinearQuery)[1];
  if (!steps.is_const() || steps.value() < 1 || steps.value() > kMostSteps ||
      !state_shape[2].is_const() || state_shape[2].value() < 1) {
    return rw.keep("devices compute at most " + std::to_string(kMostSteps) +
                   " steps, of heads whose size does not vary");
  }
  const DType t = c.dtype(c.in(kLinearQuery));
  const LinearAttention a{c, rule, heads, state_shape[0], state_shape[2], state_shape[3]};
  double scale = c.attrs().get_float("scale");
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(a.key_size.value()));
  V state = c.has(kLinearPast) ? c.cast(c.in(kLinearPast), accumulate_dtype(t))
                               : c.expand(c.scalar(accumulate_dtype(t), 0), state_shape);
  const DType state_dtype = c.has(kLinearPast) ? c.dtype(c.in(kLinearPast)) : t;
  std::vector<V> results;
  for (int64_t i = 0; i < steps.value(); ++i) {
    state = a.advance(state, i);
    results.push_back(a.read(state, i, scale));
  }
  c.replace(0, c.cast(c.concat(std::move(results), 1), t));
  c.replace(1, c.cast(state, state_dtype));
  return c.finish();
}

// --- CausalConvWithState -------------------------------------------------------------------------

/// input [B, C, L], weight [C, 1, k], bias [C] and the last k - 1 elements of the call before.
Status infer_causal_conv(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_same_dtype(ctx));
  if (ctx.rank(0) != 3 || ctx.rank(1) != 3) {
    return ctx.invalid("input " + ctx.str(ctx.shape(0)) + " and weight " + ctx.str(ctx.shape(1)) +
                       " must have rank 3");
  }
  const std::string activation = ctx.attrs().get_string("activation");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return ctx.invalid("activation is '" + activation + "', must be none, silu or swish");
  const Shape& x = ctx.shape(0);
  const Shape& weight = ctx.shape(1);
  if (!weight[0].is_const() || !weight[2].is_const() || weight[2].value() < 1) {
    return ctx.error(Code::Unsupported, "the channels and the length of the weight " +
                                            ctx.str(weight) + " must be static and positive");
  }
  RP_TRY(ctx.unify(x[1], weight[0], "channels of input and weight").status());
  RP_TRY(ctx.unify(weight[1], 1, "dim 1 of the weight").status());
  const Shape state{x[0], weight[0], weight[2] - 1};
  if (ctx.has_input(2)) {
    if (ctx.rank(2) != 1)
      return ctx.invalid("bias must be a vector, has shape " + ctx.str(ctx.shape(2)));
    RP_TRY(ctx.unify(ctx.shape(2)[0], weight[0], "entries of bias and channels").status());
  }
  if (ctx.has_input(3)) {
    if (ctx.rank(3) != 3)
      return ctx.invalid("past_state must be " + ctx.str(state) + ", is " + ctx.str(ctx.shape(3)));
    for (size_t d = 0; d < 3; ++d)
      RP_TRY(ctx.unify(ctx.shape(3)[d], state[d], "dims of past_state").status());
  }
  ctx.set_output(0, ctx.dtype(0), x);
  ctx.set_output(1, ctx.dtype(0), state);
  return {};
}

Result<bool> causal_conv(Rewriter& rw) {
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  const Shape x = c.shape(c.in(0));
  const Shape weight = c.shape(c.in(1));
  const Expr carried = weight[2] - 1;
  V signal = c.in(0);
  if (!carried.is_const(0)) {
    const V past = c.has(3) ? c.in(3) : c.expand(c.scalar(t, 0), {x[0], weight[0], carried});
    signal = c.concat({past, signal}, 2);
  }
  c.replace(1, c.slice_axis(signal, 2, x[2], carried));
  if (x[2].is_const(0)) {  // no convolution has a window that is longer than its signal
    c.replace(0, c.expand(c.scalar(t, 0), x));
    return c.finish();
  }
  AttrMap a;
  a.set("channels_last", int64_t{0});
  a.set("dilations", std::vector<int64_t>{1});
  a.set("group", weight[0].value());
  a.set("pads", std::vector<int64_t>{0, 0});
  a.set("strides", std::vector<int64_t>{1});
  V y = c.op("Conv", {c.cast(signal, accumulate_dtype(t)), c.cast(c.in(1), accumulate_dtype(t))},
             std::move(a));
  if (c.has(2)) y = c.add(y, c.along_axis(c.cast(c.in(2), accumulate_dtype(t)), 1, 3));
  if (c.attrs().get_string("activation") != "none") y = c.op("Silu", {y});
  c.replace(0, c.cast(y, t));
  return c.finish();
}

constexpr AttrDecl kLinearAttentionAttrs[] = {
    int_attr("chunk_size", 64), required_attr("kv_num_heads", AttrType::Int),
    required_attr("q_num_heads", AttrType::Int), float_attr("scale", 0.0F),
    string_attr("update_rule", "gated_delta")};
constexpr AttrDecl kCausalConvAttrs[] = {string_attr("activation", "none")};

}  // namespace

std::span<const OpDef> linear_attention_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "LinearAttention",
       .infer = infer_linear_attention,
       .decompose = linear_attention,
       .min_inputs = 3,
       .max_inputs = 6,
       .max_outputs = 2,
       .attributes = kLinearAttentionAttrs},
      {.name = "CausalConvWithState",
       .infer = infer_causal_conv,
       .decompose = causal_conv,
       .min_inputs = 2,
       .max_inputs = 4,
       .max_outputs = 2,
       .attributes = kCausalConvAttrs},
  };
  return kOps;
}

}  // namespace reprise::ops
