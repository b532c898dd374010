// Further quantised operators of com.microsoft, written in operators of ONNX.
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

/// Scales and zero points of QLinear operators are one number each.
V one_number(Composer& c, V v, const std::string& what) {
  if (v == kNone || !c.ok()) return v;
  if (element_count(c.shape(v)).is_const(1)) return c.reshape(v, {});
  c.refuse(Code::Unsupported, what + " must be one number");
  return v;
}

/// (x - zero) * scale of the inputs i, i + 1 and i + 2.
V dequantized(Composer& c, size_t i) {
  return c.model("DequantizeLinear", {c.input(i), one_number(c, c.input(i + 1), "a scale"),
                                      one_number(c, c.input(i + 2), "a zero point")});
}

/// Quantises y with the inputs `scale` and `scale` + 1, to the type of the zero point or
/// `otherwise`.
V quantized(Composer& c, V y, size_t scale, DType otherwise) {
  AttrMap a;
  if (!c.has(scale + 1)) a.set("output_dtype", dtype_to_onnx(otherwise));
  return c.model("QuantizeLinear",
                 {y, one_number(c, c.input(scale), "a scale"),
                  one_number(c, c.input(scale + 1), "a zero point")},
                 std::move(a));
}

/// Fails if an input that may be omitted only behind others is missing.
void require(Composer& c, std::initializer_list<size_t> inputs) {
  for (const size_t i : inputs) {
    if (c.ok() && !c.has(i))
      c.refuse(Code::InvalidModel, "input " + std::to_string(i) + " is missing");
  }
}

Result<bool> concat(Rewriter& rw) {
  Composer c(rw);
  const size_t count = rw.node().inputs.size();
  if (count % 3 != 2)
    c.refuse(Code::InvalidModel, "has " + std::to_string(count) +
                                     " inputs, expected a scale, a zero point, and three for each "
                                     "tensor");
  std::vector<V> parts;
  for (size_t i = 2; c.ok() && i < count; i += 3) parts.push_back(dequantized(c, i));
  if (!c.ok()) return c.finish();
  c.replace(0, quantized(c, c.model("Concat", std::move(parts), c.given({"axis"})), 0, DType::U8));
  return c.finish();
}

Result<bool> reduce_mean(Rewriter& rw) {
  Composer c(rw);
  require(c, {3});
  const V y = c.model("ReduceMean", {dequantized(c, 0)}, c.given({"axes", "keepdims"}), 13);
  c.replace(0, quantized(c, y, 3, c.dtype(c.in(0))));
  return c.finish();
}

/// The attribute `opset` says which Softmax it is.
Result<bool> softmax(Rewriter& rw) {
  Composer c(rw);
  require(c, {3});
  const int64_t opset = c.attrs().get_int("opset");
  if (opset < 1) c.refuse(Code::InvalidModel, "opset is " + std::to_string(opset));
  const int64_t axis = c.attrs().get_or<int64_t>("axis", opset < 13 ? 1 : -1);
  const V y = c.model("Softmax", {dequantized(c, 0)}, attributes({{"axis", axis}}), opset);
  c.replace(0, quantized(c, y, 3, c.dtype(c.in(0))));
  return c.finish();
}

Result<bool> where(Rewriter& rw) {
  Composer c(rw);
  const V condition = c.cast(c.in(0), DType::Bool);
  const V y = c.model("Where", {condition, dequantized(c, 1), dequantized(c, 4)});
  c.replace(0, quantized(c, y, 7, c.dtype(c.in(1))));
  return c.finish();
}

Result<bool> average_pool(Rewriter& rw) {
  Composer c(rw);
  require(c, {3});
  const bool last = c.attrs().get_int("channels_last") != 0;
  V x = dequantized(c, 0);
  if (last) x = c.channels_first(x);
  V y = c.model(
      "AveragePool", {x},
      c.given({"auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"}));
  if (last) y = c.channels_last(y);
  c.replace(0, quantized(c, y, 3, c.dtype(c.in(0))));
  return c.finish();
}

Result<bool> conv(Rewriter& rw) {
  Composer c(rw);
  const bool last = c.attrs().get_int("channels_last") != 0;
  std::vector<V> inputs = rw.node().inputs.list();
  if (last) inputs[0] = c.channels_first(inputs[0]);
  V y = c.model("QLinearConv", std::move(inputs),
                c.given({"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}));
  if (last) y = c.channels_last(y);
  c.replace(0, y);
  return c.finish();
}

/// A B * factor + bias, with A and B as integers.
V product(Composer& c, std::vector<V> operands, V factor, V bias) {
  const V sum = c.model("MatMulInteger", std::move(operands));
  V y = c.mul(c.cast(sum, DType::F32), c.cast(factor, DType::F32));
  if (bias != kNone) y = c.add(y, c.cast(bias, DType::F32));
  return y;
}

/// A scale or zero point of B: one number, or one for each column.
V of_columns(Composer& c, V v) {
  if (v == kNone || !c.ok()) return v;
  return element_count(c.shape(v)).is_const(1) ? c.reshape(v, {}) : v;
}

Result<bool> dynamic_matmul(Rewriter& rw) {
  Composer c(rw);
  require(c, {2});
  const std::vector<V> a = c.model_all("DynamicQuantizeLinear", {c.in(0)}, {}, 3);
  const V scale = c.mul(a[1], of_columns(c, c.in(2)));
  c.replace(0, product(c, {a[0], c.in(1), a[2], of_columns(c, c.input(3))}, scale, c.input(4)));
  return c.finish();
}

Result<bool> matmul_to_float(Rewriter& rw) {
  Composer c(rw);
  const DType t = c.dtype(c.in(2));
  const V scale = c.mul(c.cast(one_number(c, c.in(2), "a_scale"), DType::F32),
                        c.cast(of_columns(c, c.in(3)), DType::F32));
  const std::vector<V> operands{c.in(0), c.in(1), one_number(c, c.input(4), "a_zero_point"),
                                of_columns(c, c.input(5))};
  c.replace(0, c.cast(product(c, operands, scale, c.input(6)), t));
  return c.finish();
}

Result<bool> mul_integer(Rewriter& rw) {
  Composer c(rw);
  require(c, {0, 2});
  const auto centered = [&](size_t i) {
    const V q = c.cast(c.input(i), DType::I32);
    const V zero = one_number(c, c.input(i + 1), "a zero point");
    return zero == kNone ? q : c.sub(q, c.cast(zero, DType::I32));
  };
  c.replace(0, c.mul(centered(0), centered(2)));
  return c.finish();
}

Result<bool> sum_integer(Rewriter& rw) {
  Composer c(rw);
  const DType to = is_signed_int(c.dtype(c.in(0))) ? DType::I32 : DType::U32;
  c.replace(0, c.model("ReduceSum", {c.cast(c.in(0), to)}, c.given({"axes", "keepdims"}), 11));
  return c.finish();
}

Result<bool> matmul_integer16(Rewriter& rw) {
  Composer c(rw);
  const bool is_signed = is_signed_int(c.dtype(c.in(0)));
  const V y = c.model("MatMul", {c.cast(c.in(0), DType::I32), c.cast(c.in(1), DType::I32)});
  c.replace(0, is_signed ? y : c.cast(y, DType::U32));
  return c.finish();
}

// --- Tables and layers ---------------------------------------------------------------------------

/// The tables of QEmbedLayerNormalization are the inputs of EmbedLayerNormalization from 2 on.
/// Their scales and zero points follow in the same order, without those of the mask.
Result<bool> quantized_embed_norm(Rewriter& rw) {
  Composer c(rw);
  constexpr size_t kTables = 2, kMask = 7, kScales = 8, kZeros = 13;
  std::vector<V> inputs{c.in(0), c.input(1)};
  for (size_t i = 0; i < kMask - kTables; ++i) {
    const V table = c.input(kTables + i);
    inputs.push_back(
        table == kNone
            ? kNone
            : c.model("DequantizeLinear", {table, one_number(c, c.input(kScales + i), "a scale"),
                                           one_number(c, c.input(kZeros + i), "a zero point")}));
  }
  inputs.push_back(c.input(kMask));
  const std::vector<V> out =
      c.microsoft_all("EmbedLayerNormalization", std::move(inputs), c.given({"epsilon"}), 2);
  c.replace(0, out[0]);
  if (c.has_output(1)) c.replace(1, out[1]);
  return c.finish();
}

/// A weight [directions, size, gates] as floats, in the order [directions, gates, size] of LSTM.
V lstm_weight(Composer& c, size_t weight, size_t scale) {
  if (!c.ok()) return kNone;
  const Shape w = c.shape(c.in(weight)), s = c.shape(c.in(scale));
  const auto spread = [&](V v) {
    return c.cast(c.reshape(v, {s[0], 1, s.size() == 2 ? s[1] : Expr(1)}), DType::F32);
  };
  if (w.size() != 3 || s.empty() || s.size() > 2 || c.shape(c.in(scale + 1)) != s) {
    c.refuse(Code::InvalidModel,
             "a weight must have rank 3, and its scale and zero point one number for each "
             "direction, or for each direction and column");
    return kNone;
  }
  const V centered = c.sub(c.cast(c.in(weight), DType::F32), spread(c.in(scale + 1)));
  return c.transpose(c.mul(centered, spread(c.in(scale))), {0, 2, 1});
}

/// An LSTM with the weights as floats. ONNX Runtime rounds the operands of products to 8 bits as
/// well, to save time, which makes its results less accurate.
Result<bool> lstm(Rewriter& rw) {
  Composer c(rw);
  constexpr size_t kWScale = 8, kRScale = 10;
  require(c, {kWScale, kWScale + 1, kRScale, kRScale + 1});
  if (!c.ok()) return c.finish();
  std::vector<V> inputs{c.in(0), lstm_weight(c, 1, kWScale), lstm_weight(c, 2, kRScale)};
  for (size_t i = 3; i < kWScale; ++i) inputs.push_back(c.input(i));
  const std::vector<V> out =
      c.model_all("LSTM", std::move(inputs),
                  c.given({"activation_alpha", "activation_beta", "activations", "clip",
                           "direction", "hidden_size", "input_forget"}),
                  3, 14);
  for (size_t i = 0; i < 3; ++i) {
    if (c.has_output(i)) c.replace(i, out[i]);
  }
  return c.finish();
}

// --- QuantizeLinear, DequantizeLinear ------------------------------------------------------------

/// These are the operators of ONNX for more types.
Result<bool> quantize(Rewriter& rw) {
  Composer c(rw);
  c.replace(0, c.model("QuantizeLinear", rw.node().inputs.list(), c.given({"axis"})));
  return c.finish();
}

Result<bool> dequantize(Rewriter& rw) {
  Composer c(rw);
  c.replace(0, c.model("DequantizeLinear", rw.node().inputs.list(), c.given({"axis"})));
  return c.finish();
}

constexpr AttrDecl kLinearConcatAttrs[] = {required_attr("axis", AttrType::Int)};
constexpr AttrDecl kLinearReduceAttrs[] = {required_attr("axes", AttrType::Ints),
                                           required_attr("keepdims", AttrType::Int)};
constexpr AttrDecl kLinearSoftmaxAttrs[] = {optional_attr("axis", AttrType::Int),
                                            required_attr("opset", AttrType::Int)};
constexpr AttrDecl kLinearPoolAttrs[] = {optional_attr("auto_pad", AttrType::String),
                                         int_attr("ceil_mode", 0),
                                         int_attr("channels_last", 0),
                                         int_attr("count_include_pad", 0),
                                         required_attr("kernel_shape", AttrType::Ints),
                                         optional_attr("pads", AttrType::Ints),
                                         optional_attr("strides", AttrType::Ints)};
constexpr AttrDecl kLinearConvAttrs[] = {
    optional_attr("auto_pad", AttrType::String),   int_attr("channels_last", 0),
    optional_attr("dilations", AttrType::Ints),    int_attr("group", 1),
    optional_attr("kernel_shape", AttrType::Ints), optional_attr("pads", AttrType::Ints),
    optional_attr("strides", AttrType::Ints)};
constexpr AttrDecl kQuantizedEmbedAttrs[] = {float_attr("epsilon", 1e-12F)};
constexpr AttrDecl kLinearLstmAttrs[] = {optional_attr("activation_alpha", AttrType::Floats),
                                         optional_attr("activation_beta", AttrType::Floats),
                                         optional_attr("activations", AttrType::Strings),
                                         optional_attr("clip", AttrType::Float),
                                         string_attr("direction", "forward"),
                                         optional_attr("hidden_size", AttrType::Int),
                                         int_attr("input_forget", 0)};
constexpr AttrDecl kAxisAttrs[] = {optional_attr("axis", AttrType::Int)};

}  // namespace

std::span<const OpDef> microsoft_linear_ops() {
  static constexpr OpDef kOps[] = {
      composed_row("QLinearConcat", concat, {5, kVariadic}, kLinearConcatAttrs),
      composed_row("QLinearReduceMean", reduce_mean, {2, 5}, kLinearReduceAttrs),
      composed_row("QLinearSoftmax", softmax, {2, 5}, kLinearSoftmaxAttrs),
      composed_row("QLinearWhere", where, {9, 9}),
      composed_row("QLinearAveragePool", average_pool, {2, 5}, kLinearPoolAttrs),
      renamed(composed_row("ContribQLinearConv", conv, {8, 9}, kLinearConvAttrs), "QLinearConv"),
      composed_row("DynamicQuantizeMatMul", dynamic_matmul, {3, 5}),
      composed_row("MatMulIntegerToFloat", matmul_to_float, {4, 7}),
      composed_row("MulInteger", mul_integer, {1, 4}),
      composed_row("ReduceSumInteger", sum_integer, {1, 1}, kLinearReduceAttrs),
      composed_row("MatMulInteger16", matmul_integer16, {2, 2}),
      composed_row("QEmbedLayerNormalization", quantized_embed_norm, {1, 18, 2},
                   kQuantizedEmbedAttrs),
      composed_row("DynamicQuantizeLSTM", lstm, {3, 12, 3}, kLinearLstmAttrs),
      of_low_bits(renamed(composed_row("ContribQuantizeLinear", quantize, {2, 3}, kAxisAttrs),
                          "QuantizeLinear")),
      of_low_bits(renamed(composed_row("ContribDequantizeLinear", dequantize, {2, 3}, kAxisAttrs),
                          "DequantizeLinear")),
  };
  return kOps;
}

}  // namespace reprise::ops
