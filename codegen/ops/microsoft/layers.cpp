// Layers of com.microsoft that ONNX Runtime's optimiser fuses or moves to channels last, written in
// operators of ONNX.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md defines them.
#include <string>

#include "codegen/ops/microsoft/microsoft.h"
#include "codegen/ops/row/composed.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using graph::kNone;
using V = OpBuilder::V;

// --- Convolutions and pools ----------------------------------------------------------------------

AttrMap conv_attributes(Composer& c) {
  return c.given({"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"});
}

/// The activation of the convolution x * w + b + z.
V fused_conv_of(Composer& c, V x, V z) {
  V y = c.model("Conv", {x, c.in(1), c.input(2)}, conv_attributes(c));
  if (z != kNone) {
    // The sum has the shape of the convolution; z does not enlarge it.
    y = c.model("Add", {y, c.model("Expand", {z, c.model("Shape", {y})})});
  }
  const auto parameters = c.attrs().get_or<std::vector<float>>("activation_params", {});
  return c.activated(y, c.attrs().get_string("activation"), parameters);
}

Result<bool> fused_conv(Rewriter& rw) {
  Composer c(rw);
  c.replace(0, fused_conv_of(c, c.in(0), c.input(3)));
  return c.finish();
}

Result<bool> nhwc_fused_conv(Rewriter& rw) {
  Composer c(rw);
  const V z = c.has(3) ? c.channels_first(c.in(3)) : kNone;
  c.replace(0, c.channels_last(fused_conv_of(c, c.channels_first(c.in(0)), z)));
  return c.finish();
}

/// The weight has its channels last, too, as fusion_nhwc_conv.py writes it.
Result<bool> nhwc_conv(Rewriter& rw) {
  Composer c(rw);
  const V y = c.model("Conv", {c.channels_first(c.in(0)), c.channels_first(c.in(1)), c.input(2)},
                      conv_attributes(c));
  c.replace(0, c.channels_last(y));
  return c.finish();
}

Result<bool> nhwc_max_pool(Rewriter& rw) {
  Composer c(rw);
  const V y =
      c.model("MaxPool", {c.channels_first(c.in(0))},
              c.given({"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"}));
  c.replace(0, c.channels_last(y));
  return c.finish();
}

Result<bool> conv_transpose_dynamic(Rewriter& rw) {
  Composer c(rw);
  AttrMap a =
      c.given({"auto_pad", "dilations", "group", "kernel_shape", "output_padding", "strides"});
  if (c.has(2)) a.set("pads", c.constant_ints(2, "Pads"));
  if (!c.ok()) return c.finish();
  c.replace(0, c.model("ConvTranspose", {c.in(0), c.in(1), c.input(3)}, std::move(a)));
  return c.finish();
}

// --- Group normalisation -------------------------------------------------------------------------

/// Normalises x [batch, channels, ...], a float32, and applies the activation.
V group_normalized(Composer& c, V x) {
  AttrMap a = c.given({"epsilon"});
  a.set("num_groups", c.attrs().get_int("groups"));
  const V y = c.model("GroupNormalization",
                      {x, c.cast(c.in(1), DType::F32), c.cast(c.in(2), DType::F32)}, std::move(a));
  const int64_t activation = c.attrs().get_int("activation");
  if (activation != 0 && activation != 1)
    c.refuse(Code::Unsupported, "activation is " + std::to_string(activation) + ", must be 0 or 1");
  return activation == 1 ? c.mul(y, c.model("Sigmoid", {y})) : y;
}

bool has_channels_last(Composer& c) {
  return c.attrs().get_int("channels_last") != 0;
}

V group_norm_of(Composer& c, V x) {
  if (!has_channels_last(c)) return group_normalized(c, x);
  return c.channels_last(group_normalized(c, c.channels_first(x)));
}

Result<bool> group_norm(Rewriter& rw) {
  Composer c(rw);
  const DType t = c.dtype(c.in(0));
  c.replace(0, c.cast(group_norm_of(c, c.cast(c.in(0), DType::F32)), t));
  return c.finish();
}

Result<bool> skip_group_norm(Rewriter& rw) {
  Composer c(rw);
  const DType t = c.dtype(c.in(0));
  const Shape x = c.shape(c.in(0)), skip = c.shape(c.in(3));
  if (x.size() != 4 || (skip.size() != 4 && skip.size() != 2)) {
    c.refuse(Code::InvalidModel, "X must have rank 4 and skip rank 4 or 2");
    return c.finish();
  }
  const bool last = has_channels_last(c);
  const auto channels = [&](V v) {
    return c.cast(last ? v : c.reshape(v, {element_count(c.shape(v)), 1, 1}), DType::F32);
  };
  V added = c.cast(c.in(3), DType::F32);
  if (skip.size() == 2)
    added = c.reshape(added, last ? Shape{skip[0], 1, 1, skip[1]} : Shape{skip[0], skip[1], 1, 1});
  V sum = c.model("Add", {c.cast(c.in(0), DType::F32), added});
  if (c.has(4)) sum = c.model("Add", {sum, channels(c.in(4))});
  c.replace(0, c.cast(group_norm_of(c, sum), t));
  if (c.has_output(1)) c.replace(1, c.cast(sum, t));
  return c.finish();
}

// --- Softmax, Dropout ----------------------------------------------------------------------------

/// The softmax over all axes from `axis` on.
Result<bool> bias_softmax(Rewriter& rw) {
  Composer c(rw);
  const bool inner = c.attrs().get_int("is_inner_broadcast") != 0;
  if (inner && c.shape(c.in(0)).size() != c.shape(c.in(1)).size())
    c.refuse(Code::Unsupported,
             "is_inner_broadcast with a bias of another rank is not supported; give the bias dims "
             "of 1");
  const V sum = c.model("Add", {c.in(0), c.in(1)});
  const int64_t axis = c.attrs().get_int("axis");
  c.replace(0, c.model("Softmax", {sum}, attributes({{"axis", axis}}), 12));
  return c.finish();
}

/// Whether a node for training may be replaced by what it does in inference.
bool in_inference(Composer& c, size_t training_mode) {
  if (!c.has(training_mode)) return true;
  const std::vector<int64_t> training = c.constant_ints(training_mode, "training_mode");
  if (c.ok() && (training.size() != 1 || training[0] != 0))
    c.refuse(Code::Unsupported, "training_mode is not supported; export the model for inference");
  return c.ok();
}

/// In inference, Dropout is its operand, and all of it is kept.
Result<bool> dropout(Rewriter& rw) {
  Composer c(rw);
  if (in_inference(c, 2)) c.replace(0, c.model("Identity", {c.in(0)}));
  if (c.has_output(1)) c.refuse(Code::Unsupported, "the output 'mask' is not computed; remove it");
  return c.finish();
}

Result<bool> bias_dropout(Rewriter& rw) {
  Composer c(rw);
  if (!in_inference(c, 4)) return c.finish();
  V y = c.model("Add", {c.in(0), c.in(1)});
  if (c.has(2)) y = c.model("Add", {y, c.in(2)});
  c.replace(0, y);
  if (c.has_output(1)) c.refuse(Code::Unsupported, "the output 'mask' is not computed; remove it");
  return c.finish();
}

// --- Products and activations --------------------------------------------------------------------

Result<bool> transpose_matmul(Rewriter& rw) {
  Composer c(rw);
  c.replace(0,
            c.microsoft("FusedMatMul", {c.in(0), c.in(1)}, c.given({"alpha", "transA", "transB"})));
  return c.finish();
}

Result<bool> matmul_activation(Rewriter& rw) {
  Composer c(rw);
  const V y = c.microsoft("FusedMatMul", {c.in(0), c.in(1)},
                          c.given({"alpha", "transA", "transB", "transBatchA", "transBatchB"}));
  std::vector<float> parameters;
  for (const char* name : {"activation_alpha", "activation_beta"}) {
    const auto* p = c.attrs().get<float>(name);
    if (p == nullptr) break;
    parameters.push_back(*p);
  }
  const std::string activation = c.attrs().get_string("activation");
  c.replace(0, c.activated(y, activation, parameters));
  return c.finish();
}

Result<bool> gemm_fast_gelu(Rewriter& rw) {
  Composer c(rw);
  const V y = c.model("MatMul", {c.in(0), c.in(1)});
  c.replace(0, c.microsoft("FastGelu", {y, c.input(2)}));
  return c.finish();
}

Result<bool> gelu(Rewriter& rw) {
  Composer c(rw);
  c.replace(0, c.model("Gelu", {c.in(0)}));
  return c.finish();
}

Result<bool> scaled_silu(Rewriter& rw) {
  Composer c(rw);
  const DType t = c.dtype(c.in(0)), inner = accumulate_dtype(t);
  const V x = c.cast(c.in(0), inner);
  const V scale = c.has(1) ? c.cast(c.reshape(c.in(1), {}), inner)
                           : c.scalar(inner, c.attrs().get_float("alpha"));
  // Each step is rounded to the type of x.
  const V z = c.cast(c.mul(x, scale), t);
  c.replace(0, c.mul(z, c.op("Sigmoid", {z})));
  return c.finish();
}

/// clamp(gate) * sigmoid(alpha * clamp(gate)) * (clamp(up) + beta)
Result<bool> swiglu(Rewriter& rw) {
  Composer c(rw);
  const DType t = c.dtype(c.in(0)), inner = accumulate_dtype(t);
  const Shape s = c.shape(c.in(0));
  V gate = c.cast(c.in(0), inner), up = c.has(1) ? c.cast(c.in(1), inner) : kNone;
  if (c.has(1) && c.shape(c.in(1)) != s)
    c.refuse(Code::InvalidModel, "gate and up differ in shape");
  if (s.empty()) c.refuse(Code::InvalidModel, "gate must not be a scalar");
  if (!c.ok()) return c.finish();
  if (up == kNone) {
    const Expr half = Expr::floordiv(s.back(), 2);
    const auto last = std::ssize(s) - 1;
    up = c.slice_axis(gate, last, half, half);
    gate = c.slice_axis(gate, last, 0, half);
  }
  const auto limit = static_cast<double>(c.attrs().get_float("limit"));
  if (limit > 0) {
    gate = c.min(gate, limit);
    up = c.clip(up, -limit, limit);
  }
  const V turned = c.op("Sigmoid", {c.mul(gate, c.attrs().get_float("activation_alpha"))});
  V activated = c.mul(gate, turned);
  if (c.attrs().get_int("round_activation") != 0) activated = c.cast(c.cast(activated, t), inner);
  const auto beta = static_cast<double>(c.attrs().get_float("activation_beta"));
  c.replace(0, c.cast(c.mul(activated, beta == 0 ? up : c.add(up, beta)), t));
  return c.finish();
}

/// The RMS norm of each group of elements, times a gate.
Result<bool> gated_norm(Rewriter& rw) {
  Composer c(rw);
  const DType t = c.dtype(c.in(0)), inner = accumulate_dtype(t);
  const Shape s = c.shape(c.in(0)), scale = c.shape(c.in(1));
  const std::string activation = c.attrs().get_string("activation");
  if (activation != "silu" && activation != "swish" && activation != "sigmoid")
    c.refuse(Code::InvalidModel, "activation is '" + activation + "'");
  const bool fits = !s.empty() && scale.size() == 1 && scale[0].is_const() &&
                    scale[0].value() > 0 && s.back().is_const() &&
                    s.back().value() % scale[0].value() == 0 && c.shape(c.in(2)) == s;
  if (!fits)
    c.refuse(Code::InvalidModel,
             "gate must have the shape of X, and scale a constant size that divides the last dim");
  if (!c.ok()) return c.finish();
  Shape groups = s;
  groups.back() = Expr::floordiv(s.back(), scale[0]);
  groups.push_back(scale[0]);
  const V x = c.reshape(c.cast(c.in(0), inner), groups);
  const V n = c.model("RMSNormalization", {x, c.cast(c.in(1), inner)},
                      attributes({{"epsilon", c.attrs().get_float("epsilon")}}), 23);
  const V z = c.cast(c.in(2), inner);
  V gate = c.op("Sigmoid", {z});
  if (activation != "sigmoid") gate = c.mul(z, gate);
  c.replace(0, c.cast(c.mul(c.reshape(n, s), gate), t));
  return c.finish();
}

constexpr AttrDecl kFusedConvAttrs[] = {string_attr("activation", ""),
                                        optional_attr("activation_params", AttrType::Floats),
                                        optional_attr("auto_pad", AttrType::String),
                                        optional_attr("dilations", AttrType::Ints),
                                        int_attr("group", 1),
                                        optional_attr("kernel_shape", AttrType::Ints),
                                        optional_attr("pads", AttrType::Ints),
                                        optional_attr("strides", AttrType::Ints)};
constexpr AttrDecl kConvAttrs[] = {optional_attr("auto_pad", AttrType::String),
                                   optional_attr("dilations", AttrType::Ints),
                                   int_attr("group", 1),
                                   optional_attr("kernel_shape", AttrType::Ints),
                                   optional_attr("pads", AttrType::Ints),
                                   optional_attr("strides", AttrType::Ints)};
constexpr AttrDecl kPoolAttrs[] = {
    optional_attr("auto_pad", AttrType::String), int_attr("ceil_mode", 0),
    optional_attr("dilations", AttrType::Ints),  required_attr("kernel_shape", AttrType::Ints),
    optional_attr("pads", AttrType::Ints),       optional_attr("strides", AttrType::Ints)};
constexpr AttrDecl kConvTransposeAttrs[] = {optional_attr("auto_pad", AttrType::String),
                                            optional_attr("dilations", AttrType::Ints),
                                            int_attr("group", 1),
                                            optional_attr("kernel_shape", AttrType::Ints),
                                            optional_attr("output_padding", AttrType::Ints),
                                            optional_attr("strides", AttrType::Ints)};
constexpr AttrDecl kGroupNormAttrs[] = {required_attr("activation", AttrType::Int),
                                        int_attr("channels_last", 1), float_attr("epsilon", 1e-5F),
                                        required_attr("groups", AttrType::Int)};
constexpr AttrDecl kBiasSoftmaxAttrs[] = {int_attr("axis", 1),
                                          required_attr("is_inner_broadcast", AttrType::Int)};
constexpr AttrDecl kDropoutAttrs[] = {optional_attr("seed", AttrType::Int)};
constexpr AttrDecl kTransposeMatMulAttrs[] = {float_attr("alpha", 1.0F), int_attr("transA", 0),
                                              int_attr("transB", 0)};
constexpr AttrDecl kMatMulActivationAttrs[] = {required_attr("activation", AttrType::String),
                                               optional_attr("activation_alpha", AttrType::Float),
                                               optional_attr("activation_axis", AttrType::Int),
                                               optional_attr("activation_beta", AttrType::Float),
                                               optional_attr("activation_gamma", AttrType::Float),
                                               float_attr("alpha", 1.0F),
                                               int_attr("transA", 0),
                                               int_attr("transB", 0),
                                               int_attr("transBatchA", 0),
                                               int_attr("transBatchB", 0)};
constexpr AttrDecl kScaledSiluAttrs[] = {float_attr("alpha", 1.0F)};
constexpr AttrDecl kSwigluAttrs[] = {float_attr("activation_alpha", 1.0F),
                                     float_attr("activation_beta", 0.0F), float_attr("limit", 0.0F),
                                     int_attr("round_activation", 0)};
constexpr AttrDecl kGatedNormAttrs[] = {string_attr("activation", "silu"),
                                        float_attr("epsilon", 1e-5F)};

}  // namespace

std::span<const OpDef> microsoft_layers_ops() {
  static constexpr OpDef kOps[] = {
      composed_row("FusedConv", fused_conv, {2, 4}, kFusedConvAttrs),
      composed_row("NhwcFusedConv", nhwc_fused_conv, {2, 4}, kFusedConvAttrs),
      composed_row("NhwcConv", nhwc_conv, {2, 3}, kConvAttrs),
      composed_row("NhwcMaxPool", nhwc_max_pool, {1, 1}, kPoolAttrs),
      composed_row("ConvTransposeWithDynamicPads", conv_transpose_dynamic, {2, 4},
                   kConvTransposeAttrs),
      composed_row("GroupNorm", group_norm, {3, 3}, kGroupNormAttrs),
      composed_row("SkipGroupNorm", skip_group_norm, {4, 5, 2}, kGroupNormAttrs),
      composed_row("BiasSoftmax", bias_softmax, {2, 2}, kBiasSoftmaxAttrs),
      composed_row("BiasDropout", bias_dropout, {2, 5, 2}, kDropoutAttrs),
      composed_row("BitmaskBiasDropout", bias_dropout, {2, 5, 2}, kDropoutAttrs),
      composed_row("BitmaskDropout", dropout, {1, 3, 2}, kDropoutAttrs),
      composed_row("TransposeMatMul", transpose_matmul, {2, 2}, kTransposeMatMulAttrs),
      composed_row("FusedMatMulActivation", matmul_activation, {2, 2}, kMatMulActivationAttrs),
      composed_row("GemmFastGelu", gemm_fast_gelu, {2, 3}),
      renamed(composed_row("ContribGelu", gelu, {1, 1}), "Gelu"),
      composed_row("ScaledSiLU", scaled_silu, {1, 2}, kScaledSiluAttrs),
      renamed(composed_row("ContribSwiGLU", swiglu, {1, 2}, kSwigluAttrs), "SwiGLU"),
      composed_row("GatedRMSNorm", gated_norm, {3, 3}, kGatedNormAttrs),
  };
  return kOps;
}

}  // namespace reprise::ops
