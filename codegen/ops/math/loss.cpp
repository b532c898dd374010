// NegativeLogLikelihoodLoss, whose core form has no reduction, and SoftmaxCrossEntropyLoss.
#include <limits>
#include <optional>
#include <utility>

#include "codegen/ops/math/softmax.h"
#include "codegen/ops/row/element.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using kernel::Val;
using V = OpBuilder::V;

/// Scores [N, C, d...], targets [N, d...] and weights [C].
Status infer_loss(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_int(ctx, 1));
  RP_TRY(require_rank(ctx, 0, 2));
  if (ctx.rank(1) + 1 != ctx.rank(0)) {
    return ctx.invalid(
        "scores " + ctx.str(ctx.shape(0)) + " and targets " + ctx.str(ctx.shape(1)) +
        " do not match: targets must have all axes of the scores except the class axis");
  }
  Shape targets;
  for (size_t d = 0; d < ctx.shape(1).size(); ++d) {
    RP_ASSIGN(Expr dim, ctx.unify(ctx.shape(1)[d], ctx.shape(0)[d == 0 ? 0 : d + 1],
                                  "dims of scores and targets"));
    targets.push_back(std::move(dim));
  }
  if (ctx.has_input(2)) {
    if (ctx.dtype(2) != ctx.dtype(0)) {
      return ctx.invalid(
          "scores and weights differ in dtype: " + std::string(name_of(ctx.dtype(0))) + " and " +
          std::string(name_of(ctx.dtype(2))));
    }
    RP_TRY(require_shape(ctx, 2, "weights", {ctx.shape(0)[1]}));
  }
  const std::string reduction = ctx.attrs().get_string("reduction");
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    return ctx.invalid("reduction is '" + reduction + "', must be none, sum or mean");
  ctx.set_output(0, ctx.dtype(0), reduction == "none" ? std::move(targets) : Shape{});
  ctx.set_output(1, ctx.dtype(0), ctx.shape(0));
  return {};
}

/// Integers of 32 and 64 bits are compared with ignore_index as they are, which must be one of
/// these.
bool has_device_form(OpBuilder& c) {
  const DType t = c.dtype(c.in(1));
  const auto* ignored = c.attrs().get<int64_t>("ignore_index");
  return (t == DType::I32 || t == DType::I64) &&
         (ignored == nullptr || std::in_range<int32_t>(*ignored));
}

/// The sum of the weights of all targets that count.
V total_weight(OpBuilder& c, DType t) {
  V target = c.in(1);
  const Shape shape = c.shape(target);
  const auto all = iota(0, std::ssize(shape));
  const auto* ignored = c.attrs().get<int64_t>("ignore_index");
  V counts = graph::kNone;
  if (ignored != nullptr) {
    const V number = c.scalar(c.dtype(target), static_cast<double>(*ignored));
    counts = c.op("Not", {c.op("Equal", {target, number})});
  }
  if (!c.has(2)) {
    if (ignored == nullptr) return c.expr_value(element_count(shape), t);
    return c.reshape(c.cast(c.reduce("ReduceSum", c.cast(counts, DType::I32), all), t), {});
  }
  if (ignored != nullptr) target = c.where(counts, target, c.scalar(c.dtype(target), 0));
  AttrMap a;
  a.set("axis", int64_t{0});
  V weights = c.op("Gather", {c.cast(c.in(2), t), target}, std::move(a));
  if (ignored != nullptr) weights = c.where(counts, weights, c.scalar(t, 0));
  return c.reshape(c.reduce("ReduceSum", weights, all), {});
}

/// Writes the loss of log-probabilities of dtype t.
V loss_of(OpBuilder& c, V scores, DType t) {
  AttrMap a;
  a.set("reduction", std::string("none"));
  if (const auto* ignored = c.attrs().get<int64_t>("ignore_index")) a.set("ignore_index", *ignored);
  std::vector<V> operands{scores, c.in(1)};
  if (c.has(2)) operands.push_back(c.cast(c.in(2), t));
  const V each = c.op("NegativeLogLikelihoodLoss", std::move(operands), std::move(a));
  const std::string reduction = c.attrs().get_string("reduction");
  if (reduction == "none") return each;
  const V sum = c.reshape(c.reduce("ReduceSum", each, iota(0, std::ssize(c.shape(each)))), {});
  return reduction == "sum" ? sum : c.div(sum, total_weight(c, t));
}

Result<bool> negative_log_likelihood(Rewriter& rw) {
  if (rw.node().opset == 0) return false;
  OpBuilder c(rw);
  if (!has_device_form(c)) return rw.keep("its targets, or ignore_index, do not fit int32");
  const DType t = c.dtype(c.in(0)), inner = accumulate_dtype(t);
  c.replace(0, c.cast(loss_of(c, c.cast(c.in(0), inner), inner), t));
  return c.finish();
}

Result<bool> softmax_cross_entropy(Rewriter& rw) {
  OpBuilder c(rw);
  if (!has_device_form(c)) return rw.keep("its targets, or ignore_index, do not fit int32");
  const DType t = c.dtype(c.in(0)), inner = accumulate_dtype(t);
  const Softmax s(c, c.cast(c.in(0), inner), {1});
  const V scores = c.sub(s.difference, c.op("Log", {s.sum}));
  const V loss = c.cast(loss_of(c, scores, inner), t);
  c.replace_cast(1, scores);
  c.replace(0, loss);
  return c.finish();
}

/// Whether the target counts. Null: every target does.
Val counts(ElementContext& ctx, Val target) {
  kernel::Builder& b = ctx.builder();
  const auto* ignored = Attributes(ctx.node()).get<int64_t>("ignore_index");
  if (ignored == nullptr) return {};
  const bool wide = b.type(target).ty == kernel::Ty::I64;
  return b.logical_not(b.eq(target, wide ? b.i64(*ignored) : b.i32(*ignored)));
}

/// The negative score of the target's class, times its weight; 0 if the target does not count.
Status likelihood_element(ElementContext& ctx) {
  kernel::Builder& b = ctx.builder();
  const graph::Node& n = ctx.node();
  RP_ASSIGN(const Val target, ctx.input(1, ctx.index()));
  const auto loss = [&]() -> Result<Val> {
    const Expr at = ctx.checked_index(target, ctx.input_shape(0)[1], false);
    Index from = ctx.index();
    from.insert(from.begin() + 1, at);
    RP_ASSIGN(const Val score, ctx.input(0, from));
    const Val negative = b.scalar_op(kernel::ScalarOp::Neg, {score});
    if (n.inputs.size() < 3 || n.inputs[2] == graph::kNone) return negative;
    RP_ASSIGN(const Val weight, ctx.input(2, {at}));
    return Val(b.mul(negative, weight));
  };
  const Val some = counts(ctx, target);
  const Val zero = b.constant(ctx.compute(ctx.graph().value(n.outputs[0]).dtype), 0);
  RP_ASSIGN(const Val v, some ? ctx.guarded(some, zero, loss) : loss());
  ctx.set(v);
  return {};
}

Status check_core_loss(const graph::Graph&, const graph::Node& n) {
  if (Attributes(n).get_string("reduction") == "none") return {};
  return internal_error("a core NegativeLogLikelihoodLoss has no reduction");
}

constexpr AttrDecl kLossAttrs[] = {optional_attr("ignore_index", AttrType::Int),
                                   string_attr("reduction", "mean")};

}  // namespace

std::span<const OpDef> loss_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "NegativeLogLikelihoodLoss",
       .infer = infer_loss,
       .decompose = negative_log_likelihood,
       .lowering = Lowering::Element,
       .element = likelihood_element,
       .min_opset = 12,
       .min_inputs = 2,
       .max_inputs = 3,
       .attributes = kLossAttrs,
       .check_core = check_core_loss,
       .sensitivity = kernel::Sensitivity::None,
       .layout = LayoutRole::Fixed},
      {.name = "SoftmaxCrossEntropyLoss",
       .infer = infer_loss,
       .decompose = softmax_cross_entropy,
       .min_opset = 12,
       .min_inputs = 2,
       .max_inputs = 3,
       .max_outputs = 2,
       .attributes = kLossAttrs},
  };
  return kOps;
}

}  // namespace reprise::ops
