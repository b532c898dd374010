// Activations with parameters, as formulas over scalar operations. Exact Gelu is one of these.
#include <cmath>
#include <limits>

#include "codegen/ops/row/dims.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

Result<bool> clip(Rewriter& rw) {
  OpBuilder c(rw);
  V v = c.in(0);
  // Before opset 11 the bounds are attributes; since then they are optional inputs.
  if (c.has(1)) {
    v = c.max(v, c.in(1));
  } else if (const float* lo = c.attrs().get<float>("min")) {
    v = c.max(v, static_cast<double>(*lo));
  }
  if (c.has(2)) {
    v = c.min(v, c.in(2));
  } else if (const float* hi = c.attrs().get<float>("max")) {
    v = c.min(v, static_cast<double>(*hi));
  }
  c.replace(0, v);
  return c.finish();
}

Status infer_clip(InferContext& ctx) {
  RP_TRY(require_same_dtype(ctx));
  for (size_t i = 1; i < 3; ++i) {
    if (ctx.has_input(i) && !element_count(ctx.shape(i)).is_const(1)) {
      return ctx.invalid("input '" + ctx.input(i).name + "' must hold one number, has shape " +
                         ctx.str(ctx.shape(i)));
    }
  }
  return infer_same(ctx);
}

void clip_contents(ContentsContext& ctx) {
  auto e = ctx.elements(0);
  const auto lo = ctx.elements(1);
  const auto hi = ctx.elements(2);
  if (!e || (ctx.has_input(1) && !lo) || (ctx.has_input(2) && !hi)) return;
  for (Expr& x : *e) {
    if (lo) x = max_of(x, (*lo)[0], ctx.graph_symbols());
    if (hi) x = min_of(x, (*hi)[0], ctx.graph_symbols());
  }
  ctx.set_elements(0, std::move(*e));
}

Result<bool> hard_sigmoid(Rewriter& rw) {
  OpBuilder c(rw);
  const double alpha = c.attrs().get_float("alpha");
  const double beta = c.attrs().get_float("beta");
  c.replace(0, c.clip(c.add(c.mul(c.in(0), alpha), beta), 0, 1));
  return c.finish();
}

/// x >= 0 ? scale_pos * x : scale_neg * expm1(x / width). Expm1 gets min(x, 0), so that a large x
/// does not overflow in the branch that is not used.
V exponential_unit(OpBuilder& c, double scale_pos, double scale_neg, double width) {
  const V x = c.in(0);
  const V low = c.min(x, 0.0);
  const V arg = width == 1 ? low : c.div(low, width);
  const V negative = c.mul(c.op("Expm1", {arg}), scale_neg);
  const V positive = scale_pos == 1 ? x : c.mul(x, scale_pos);
  return c.where(c.op("Less", {x, c.scalar(c.dtype(x), 0)}), negative, positive);
}

Result<bool> elu(Rewriter& rw) {
  OpBuilder c(rw);
  c.replace(0, exponential_unit(c, 1, c.attrs().get_float("alpha"), 1));
  return c.finish();
}

Result<bool> selu(Rewriter& rw) {
  OpBuilder c(rw);
  const double alpha = c.attrs().get_float("alpha");
  const double gamma = c.attrs().get_float("gamma");
  c.replace(0, exponential_unit(c, gamma, alpha * gamma, 1));
  return c.finish();
}

Result<bool> celu(Rewriter& rw) {
  OpBuilder c(rw);
  const double alpha = c.attrs().get_float("alpha");
  c.replace(0, exponential_unit(c, 1, alpha, alpha));
  return c.finish();
}

Result<bool> leaky_relu(Rewriter& rw) {
  OpBuilder c(rw);
  c.replace(0, c.leaky_relu(c.in(0), c.attrs().get_float("alpha")));
  return c.finish();
}

Result<bool> prelu(Rewriter& rw) {
  OpBuilder c(rw);
  c.replace(0, c.leaky_relu(c.in(0), c.in(1)));
  return c.finish();
}

Status infer_prelu(InferContext& ctx) {
  RP_TRY(require_same_dtype(ctx));
  RP_TRY(broadcast_shape(ctx, ctx.shape(1), ctx.shape(0), "slope"));
  return infer_same(ctx);
}

Result<bool> thresholded_relu(Rewriter& rw) {
  OpBuilder c(rw);
  const V x = c.in(0);
  const V alpha = c.scalar(c.dtype(x), c.attrs().get_float("alpha"));
  c.replace(0, c.where(c.op("Greater", {x, alpha}), x, c.scalar(c.dtype(x), 0)));
  return c.finish();
}

Status infer_gelu(InferContext& ctx) {
  const std::string kind = ctx.attrs().get_string("approximate");
  if (kind != "none" && kind != "tanh") {
    return ctx.error(Code::Unsupported, "approximate = '" + kind + "'; known: none, tanh");
  }
  return infer_same_float(ctx);
}

Result<bool> gelu(Rewriter& rw) {
  OpBuilder c(rw);
  if (c.attrs().get_string("approximate") == "none") {
    rw.node().attrs = {};
    return mark_core(rw);
  }
  c.replace(0, c.op("GeluTanh", {c.in(0)}));
  return c.finish();
}

Result<bool> swish(Rewriter& rw) {
  OpBuilder c(rw);
  const V x = c.in(0);
  const double alpha = c.attrs().get_float("alpha");
  c.replace(0, alpha == 1 ? c.op("Silu", {x}) : c.mul(x, c.op("Sigmoid", {c.mul(x, alpha)})));
  return c.finish();
}

Status infer_swiglu(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_same_dtype(ctx));
  if (ctx.rank(1) != ctx.rank(0)) {
    return ctx.invalid("A " + ctx.str(ctx.shape(0)) + " and B " + ctx.str(ctx.shape(1)) +
                       " differ in shape");
  }
  for (size_t d = 0; d < ctx.shape(0).size(); ++d)
    RP_TRY(ctx.unify(ctx.shape(0)[d], ctx.shape(1)[d], "dims of A and B").status());
  return infer_same(ctx);
}

/// Swish(a) * b
Result<bool> swiglu(Rewriter& rw) {
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  const V a = c.cast(c.in(0), accumulate_dtype(t));
  const double alpha = c.attrs().get_float("alpha");
  const V gate = alpha == 1 ? c.op("Silu", {a}) : c.mul(a, c.op("Sigmoid", {c.mul(a, alpha)}));
  c.replace(0, c.cast(c.mul(gate, c.cast(c.in(1), accumulate_dtype(t))), t));
  return c.finish();
}

Result<bool> shrink(Rewriter& rw) {
  OpBuilder c(rw);
  const DType given = c.dtype(c.in(0));
  // The thresholds of integers are floats too, and the result is truncated. fp32 does not hold all
  // wide integers: the host computes those.
  if (!is_float(given) && size_of(given) > 2)
    return rw.keep("the thresholds of wide integers need float64");
  const DType t = is_float(given) ? given : DType::F32;
  const V x = c.cast(c.in(0), t);
  const double lambd = c.attrs().get_float("lambd");
  const double bias = c.attrs().get_float("bias");
  const V low = c.op("Less", {x, c.scalar(t, -lambd)});
  const V high = c.op("Greater", {x, c.scalar(t, lambd)});
  V y = c.where(low, c.add(x, bias), c.where(high, c.sub(x, bias), c.scalar(t, 0)));
  if (t != given) y = c.cast(c.cast(y, DType::I32), given);
  c.replace(0, y);
  return c.finish();
}

constexpr AttrDecl kClipAttrs[] = {optional_attr("min", AttrType::Float),
                                   optional_attr("max", AttrType::Float)};
constexpr AttrDecl kGeluAttrs[] = {string_attr("approximate", "none")};
constexpr AttrDecl kShrinkAttrs[] = {float_attr("lambd", 0.5F), float_attr("bias", 0.0F)};
constexpr AttrDecl kHardSigmoidAttrs[] = {float_attr("alpha", 0.2F), float_attr("beta", 0.5F)};
constexpr AttrDecl kEluAttrs[] = {float_attr("alpha", 1.0F)};
constexpr AttrDecl kLeakyReluAttrs[] = {float_attr("alpha", 0.01F)};
constexpr AttrDecl kSeluAttrs[] = {float_attr("alpha", 1.67326319217681884765625F),
                                   float_attr("gamma", 1.05070102214813232421875F)};

constexpr OpDef activation(std::string_view name, Result<bool> (*decompose)(Rewriter&),
                           std::span<const AttrDecl> attributes, int64_t min_opset = 1) {
  return {.name = name,
          .infer = infer_same_float,
          .decompose = decompose,
          .min_opset = min_opset,
          .attributes = attributes};
}

}  // namespace

std::span<const OpDef> activation_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "Clip",
       .infer = infer_clip,
       .contents = clip_contents,
       .decompose = clip,
       .max_inputs = 3,
       .attributes = kClipAttrs},
      {.name = "PRelu",
       .infer = infer_prelu,
       .decompose = prelu,
       .min_opset = 7,
       .min_inputs = 2,
       .max_inputs = 2},
      {.name = "Gelu",
       .infer = infer_gelu,
       .decompose = gelu,
       .lowering = Lowering::Scalar,
       .row = kernel::ScalarOp::Gelu,
       .attributes = kGeluAttrs,
       .layout = LayoutRole::Elementwise},
      {.name = "Shrink", .infer = infer_same, .decompose = shrink, .attributes = kShrinkAttrs},
      activation("HardSigmoid", hard_sigmoid, kHardSigmoidAttrs),
      activation("Elu", elu, kEluAttrs),
      activation("Selu", selu, kSeluAttrs),
      activation("Celu", celu, kEluAttrs),
      activation("LeakyRelu", leaky_relu, kLeakyReluAttrs),
      activation("ThresholdedRelu", thresholded_relu, kEluAttrs),
      activation("Swish", swish, kEluAttrs),
      {.name = "SwiGLU",
       .infer = infer_swiglu,
       .decompose = swiglu,
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = kEluAttrs},
  };
  return kOps;
}

}  // namespace reprise::ops
