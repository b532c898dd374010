// Arithmetic of versions of ONNX in which operands broadcast by attributes, and functions that ONNX
// had before version 10 as experiments, in the form of later versions.
#include <string>

#include "codegen/ops/old/versions.h"
#include "codegen/ops/row/composed.h"
#include "codegen/ops/row/dims.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

/// With `broadcast`, the dims of the second operand are those of the first from `axis` on, or its
/// last ones. Without, both have the same shape.
V second_operand(Composer& c) {
  const InferContext ctx(c.rewriter().graph(), c.rewriter().node());
  const Shape a = c.shape(c.in(0));
  Shape b = c.shape(c.in(1));
  const auto* axis = c.attrs().get<int64_t>("axis");
  if (c.attrs().get_int("broadcast") == 0) {
    bool same = a.size() == b.size();
    for (size_t d = 0; same && d < a.size(); ++d) same = ctx.unify(a[d], b[d], "dims").ok();
    if (!same)
      c.refuse(Code::InvalidModel,
               "shapes " + ctx.str(a) + " and " + ctx.str(b) + " differ, and broadcast is not 1");
    return c.in(1);
  }
  if (element_count(b).is_const(1)) return c.reshape(c.in(1), {});
  if (axis != nullptr) {
    const int64_t rank = std::ssize(a), at = *axis < 0 ? *axis + rank : *axis;
    if (at < 0 || at + std::ssize(b) > rank) {
      c.refuse(Code::InvalidModel, "axis " + std::to_string(*axis) + " does not place " +
                                       ctx.str(b) + " in " + ctx.str(a));
      return c.in(1);
    }
    b.resize(static_cast<size_t>(rank - at), Expr(1));
  }
  c.fail(broadcast_shape(ctx, b, a, "the second operand"));
  return c.reshape(c.in(1), b);
}

Result<bool> binary(Rewriter& rw) {
  Composer c(rw);
  const V b = second_operand(c);
  c.replace(0, c.model(name_in_models(rw.node()), {c.in(0), b}, {}, 7));
  return c.finish();
}

/// The slopes are one number, or one for each channel.
Result<bool> prelu(Rewriter& rw) {
  Composer c(rw);
  const auto rank = std::ssize(c.shape(c.in(0)));
  const Shape s = c.shape(c.in(1));
  V slope = c.in(1);
  if (element_count(s).is_const(1)) {
    slope = c.reshape(slope, {});
  } else if (s.size() == 1 && rank > 1) {
    slope = c.along_axis(slope, 1, rank);
  }
  c.replace(0, c.model("PRelu", {c.in(0), slope}, {}, 7));
  return c.finish();
}

Result<bool> gemm(Rewriter& rw) {
  Composer c(rw);
  c.replace(0, c.model("Gemm", rw.node().inputs.list(),
                       c.given({"alpha", "beta", "transA", "transB"}), 7));
  return c.finish();
}

/// Its defaults have four digits.
Result<bool> selu(Rewriter& rw) {
  Composer c(rw);
  c.replace(0, c.model("Selu", {c.in(0)},
                       attributes({{"alpha", c.attrs().get_float("alpha")},
                                   {"gamma", c.attrs().get_float("gamma")}}),
                       6));
  return c.finish();
}

// --- Operators before version 10 -----------------------------------------------------------------

double number(Composer& c, const char* name) {
  return static_cast<double>(c.attrs().get_float(name));
}

/// alpha * x + beta
Result<bool> affine(Rewriter& rw) {
  Composer c(rw);
  c.replace(0, c.add(c.mul(c.in(0), number(c, "alpha")), number(c, "beta")));
  return c.finish();
}

/// alpha * log(1 + exp(beta * x))
Result<bool> softplus(Rewriter& rw) {
  Composer c(rw);
  const V y = c.model("Softplus", {c.mul(c.in(0), number(c, "beta"))});
  c.replace(0, c.mul(y, number(c, "alpha")));
  return c.finish();
}

/// alpha * tanh(beta * x)
Result<bool> scaled_tanh(Rewriter& rw) {
  Composer c(rw);
  const V y = c.model("Tanh", {c.mul(c.in(0), number(c, "beta"))});
  c.replace(0, c.mul(y, number(c, "alpha")));
  return c.finish();
}

Result<bool> scale(Rewriter& rw) {
  Composer c(rw);
  c.replace(0, c.mul(c.in(0), number(c, "scale")));
  return c.finish();
}

/// scale * x + bias, with a bias for each channel
Result<bool> image_scaler(Rewriter& rw) {
  Composer c(rw);
  const Shape s = c.shape(c.in(0));
  const auto bias = c.attrs().get_or<std::vector<float>>("bias", {});
  const auto count = static_cast<int64_t>(bias.size());
  if (s.size() != 4 || !s[1].is_const(count))
    c.refuse(Code::InvalidModel,
             "the input must have rank 4 and " + std::to_string(count) + " channels, as bias has");
  if (!c.ok()) return c.finish();
  const V row = c.constant(
      float_tensor(c.dtype(c.in(0)), {count, 1, 1}, std::vector<double>(bias.begin(), bias.end())));
  c.replace(0, c.add(c.mul(c.in(0), number(c, "scale")), row));
  return c.finish();
}

constexpr AttrDecl kBinaryAttrs[] = {optional_attr("axis", AttrType::Int),
                                     int_attr("broadcast", 0)};
constexpr AttrDecl kGemmAttrs[] = {float_attr("alpha", 1.0F), float_attr("beta", 1.0F),
                                   int_attr("broadcast", 0), int_attr("transA", 0),
                                   int_attr("transB", 0)};
constexpr AttrDecl kSeluAttrs[] = {float_attr("alpha", 1.6732F), float_attr("gamma", 1.0507F)};
constexpr AttrDecl kAffineAttrs[] = {float_attr("alpha", 1.0F), float_attr("beta", 0.0F)};
constexpr AttrDecl kScaledAttrs[] = {float_attr("alpha", 1.0F), float_attr("beta", 1.0F)};
constexpr AttrDecl kScaleAttrs[] = {float_attr("scale", 1.0F)};
constexpr AttrDecl kImageAttrs[] = {optional_attr("bias", AttrType::Floats),
                                    float_attr("scale", 1.0F)};

constexpr OpDef binary_before_7(std::string_view name, std::string_view in_models) {
  return old_row({name, in_models, 6}, binary, {2, 2}, kBinaryAttrs);
}

constexpr OpDef experimental(std::string_view name, Result<bool> (*decompose)(Rewriter&),
                             std::span<const AttrDecl> attributes) {
  return old_row({name, "", 0}, decompose, {1, 1}, attributes);
}

}  // namespace

std::string name_in_models(const graph::Node& n) {
  return std::string(find(n)->in_models);
}

std::span<const OpDef> old_arithmetic_ops() {
  static constexpr OpDef kOps[] = {
      binary_before_7("AddBefore7", "Add"),
      binary_before_7("SubBefore7", "Sub"),
      binary_before_7("MulBefore7", "Mul"),
      binary_before_7("DivBefore7", "Div"),
      binary_before_7("PowBefore7", "Pow"),
      binary_before_7("AndBefore7", "And"),
      binary_before_7("OrBefore7", "Or"),
      binary_before_7("XorBefore7", "Xor"),
      binary_before_7("EqualBefore7", "Equal"),
      binary_before_7("LessBefore7", "Less"),
      binary_before_7("GreaterBefore7", "Greater"),
      old_row({"PReluBefore7", "PRelu", 6}, prelu, {2, 2}),
      old_row({"GemmBefore7", "Gemm", 6}, gemm, {3, 3}, kGemmAttrs),
      old_row({"SeluBefore6", "Selu", 5}, selu, {1, 1}, kSeluAttrs),
      experimental("Affine", affine, kAffineAttrs),
      experimental("ParametricSoftplus", softplus, kScaledAttrs),
      experimental("ScaledTanh", scaled_tanh, kScaledAttrs),
      experimental("Scale", scale, kScaleAttrs),
      experimental("ImageScaler", image_scaler, kImageAttrs),
  };
  return kOps;
}

}  // namespace reprise::ops
