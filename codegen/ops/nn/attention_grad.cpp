// AttentionGrad: the gradients of attention with respect to queries, keys and values, as PyTorch's
// backward pass needs them. The weights are not an input: exp(score - log_sum) gives them again. A
// node that kernels can compute (lower/attention_grad.cpp) stays; any other becomes its formula.
#include "codegen/ops/nn/attention_grad.h"

#include <algorithm>
#include <limits>

#include "codegen/ops/row/dims.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

using enum AttentionGradInput;

Status require_rank_4(const InferContext& ctx, size_t i, const char* role) {
  RP_TRY(require_float(ctx, i));
  if (ctx.rank(i) == 4) return {};
  return ctx.invalid(std::string(role) + " must have rank 4, has shape " + ctx.str(ctx.shape(i)));
}

Status unify_dims(const InferContext& ctx, size_t i, const Shape& expected, const char* role) {
  const Shape& s = ctx.shape(i);
  if (s.size() != expected.size()) {
    return ctx.invalid(std::string(role) + " must have shape " + ctx.str(expected) + ", has " +
                       ctx.str(s));
  }
  for (size_t d = 0; d < s.size(); ++d)
    RP_TRY(ctx.unify(s[d], expected[d], std::string("dims of ") + role).status());
  return {};
}

Status infer_attention_grad(InferContext& ctx) {
  for (const auto& [i, role] : {std::pair<size_t, const char*>{kGrad, "the gradient"},
                                {kQuery, "Q"},
                                {kKey, "K"},
                                {kValue, "V"}})
    RP_TRY(require_rank_4(ctx, i, role));
  const Shape q = ctx.shape(kQuery), k = ctx.shape(kKey), v = ctx.shape(kValue);
  RP_TRY(unify_dims(ctx, kKey, {q[0], k[1], k[2], q[3]}, "K"));
  RP_TRY(unify_dims(ctx, kValue, {q[0], k[1], k[2], v[3]}, "V"));
  RP_TRY(unify_dims(ctx, kGrad, {q[0], q[1], q[2], v[3]}, "the gradient"));
  for (const size_t i : {kLogSum, kShare}) {
    RP_TRY(require_float(ctx, i));
    RP_TRY(unify_dims(ctx, i, {q[0], q[1], q[2]}, "a value of each row"));
  }
  const bool known = q[1].is_const() && k[1].is_const();
  if (known && (k[1].value() < 1 || q[1].value() % k[1].value() != 0))
    return ctx.invalid(k[1].str({}) + " heads of K do not divide the " + q[1].str({}) +
                       " heads of Q");
  if (ctx.has_input(kMask)) {
    if (ctx.dtype(kMask) != DType::Bool) RP_TRY(require_float(ctx, kMask));
    RP_TRY(broadcast_shape(ctx, ctx.shape(kMask), {q[0], q[1], q[2], k[2]}, "the mask"));
  }
  ctx.set_output(0, ctx.dtype(kQuery), q);
  ctx.set_output(1, ctx.dtype(kKey), k);
  ctx.set_output(2, ctx.dtype(kValue), v);
  return {};
}

/// Whether kernels compute the node: they add up in F32 and have a bounded number of accumulators.
bool fits_kernels(OpBuilder& c) {
  const Shape q = c.shape(c.in(kQuery)), k = c.shape(c.in(kKey)), v = c.shape(c.in(kValue));
  const bool narrow = std::ranges::all_of(
      c.node().inputs, [&](V x) { return x == graph::kNone || c.dtype(x) != DType::F64; });
  return narrow && q[1].is_const() && k[1].is_const() && q[3].is_const() && q[3] == v[3] &&
         q[3].value() >= 1 && q[3].value() <= kMaxGradHead;
}

/// Writes the formula, with all scores in memory. Heads that share keys become rows of one product.
class GradFormula {
 public:
  explicit GradFormula(Rewriter& rw) : c_(rw) {
    q_ = c_.shape(c_.in(kQuery));
    k_ = c_.shape(c_.in(kKey));
    v_ = c_.shape(c_.in(kValue));
    type_ = accumulate_dtype(c_.dtype(c_.in(kQuery)));
    groups_ = Expr::floordiv(q_[1], k_[1]);
  }

  Result<bool> write() {
    const double scale = static_cast<double>(c_.attrs().get_float("scale"));
    const V q = rows(kQuery, q_[3]), grad = rows(kGrad, v_[3]);
    const V k = c_.cast(c_.in(kKey), type_), v = c_.cast(c_.in(kValue), type_);
    const V scores = masked(c_.mul(c_.op("MatMul", {q, turned(k)}), scale));
    const V weights = c_.op("Exp", {c_.sub(scores, rows(kLogSum, 1))});
    const V shares = c_.sub(c_.op("MatMul", {grad, turned(v)}), rows(kShare, 1));
    const V pull = c_.mul(c_.mul(weights, shares), scale);
    c_.replace_cast(0, c_.reshape(c_.op("MatMul", {pull, k}), q_));
    c_.replace_cast(1, c_.op("MatMul", {turned(pull), q}));
    c_.replace_cast(2, c_.op("MatMul", {turned(weights), grad}));
    return c_.finish();
  }

 private:
  /// Input i as [batch, heads of K, groups * rows, size].
  V rows(AttentionGradInput i, const Expr& size) {
    return c_.reshape(c_.cast(c_.in(i), type_), {q_[0], k_[1], groups_ * q_[2], size});
  }
  V turned(V v) { return c_.transpose(v, {0, 1, 3, 2}); }

  V masked(V scores) {
    if (!c_.has(kMask) && c_.attrs().get_int("is_causal") == 0) return scores;
    const Shape grouped = c_.shape(scores);
    V s = c_.reshape(scores, {q_[0], q_[1], q_[2], k_[2]});
    const V none = c_.scalar(type_, -std::numeric_limits<double>::infinity());
    if (c_.has(kMask) && c_.dtype(c_.in(kMask)) == DType::Bool) {
      s = c_.where(c_.in(kMask), s, none);
    } else if (c_.has(kMask)) {
      const V added = c_.cast(c_.in(kMask), type_);
      s = c_.where(c_.op("Equal", {added, none}), none, c_.add(s, added));
    }
    if (c_.attrs().get_int("is_causal") != 0) {
      const V row = c_.reshape(c_.positions(q_[2]), {q_[2], 1});
      s = c_.where(c_.op("LessOrEqual", {c_.positions(k_[2]), row}), s, none);
    }
    return c_.reshape(s, grouped);
  }

  OpBuilder c_;
  Shape q_, k_, v_;
  DType type_ = DType::F32;
  Expr groups_;
};

Result<bool> attention_grad(Rewriter& rw) {
  OpBuilder c(rw);
  if (fits_kernels(c)) return mark_core(rw);
  return attention_grad_formula(rw);
}

constexpr AttrDecl kAttributes[] = {int_attr("is_causal", 0),
                                    required_attr("scale", AttrType::Float)};

}  // namespace

Result<bool> attention_grad_formula(Rewriter& rw) {
  return GradFormula(rw).write();
}

std::span<const OpDef> attention_grad_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "AttentionGrad",
       .infer = infer_attention_grad,
       .decompose = attention_grad,
       .lowering = Lowering::Kernel,
       .kernel = "attention gradient",
       .min_inputs = 6,
       .max_inputs = 7,
       .max_outputs = 3,
       .attributes = kAttributes,
       .sensitivity = kernel::Sensitivity::Exponential,
       .layout = LayoutRole::Fixed},
  };
  return kOps;
}

}  // namespace reprise::ops
