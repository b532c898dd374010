// Layers of versions of ONNX that also served training, in the form of later versions.
#include <cmath>
#include <string>

#include "codegen/ops/old/versions.h"
#include "codegen/ops/row/composed.h"
#include "codegen/ops/row/dims.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

/// Before version 7, layers train unless the attribute `is_test` says otherwise.
void require_test(Composer& c) {
  if (c.opset() < 7 && c.attrs().get_int("is_test") == 0)
    c.refuse(Code::Unsupported,
             "is_test is 0, which means training; set it to 1, or convert the model to version 7");
}

Result<bool> old_dropout(Rewriter& rw) {
  Composer c(rw);
  require_test(c);
  if (c.has_output(1))
    c.refuse(Code::Unsupported, "the output 'mask' is computed in training only; remove it");
  c.replace(0, c.model("Identity", {c.in(0)}));
  return c.finish();
}

/// Without `spatial`, each element of an example has its own statistics.
V normalized_each(Composer& c) {
  const DType t = c.dtype(c.in(0)), inner = accumulate_dtype(t);
  const Shape s = c.shape(c.in(0));
  const InferContext ctx(c.rewriter().graph(), c.rewriter().node());
  const Shape example(s.empty() ? s.end() : s.begin() + 1, s.end());
  for (size_t i = 1; i < 5; ++i)
    c.fail(broadcast_shape(ctx, c.shape(c.in(i)), example, "input " + std::to_string(i)));
  const auto in = [&](size_t i) { return c.cast(c.in(i), inner); };
  const V variance = c.add(in(4), static_cast<double>(c.attrs().get_float("epsilon")));
  const V y = c.mul(c.sub(in(0), in(3)), c.mul(in(1), c.op("Rsqrt", {variance})));
  return c.cast(c.add(y, in(2)), t);
}

Result<bool> old_batch_norm(Rewriter& rw) {
  Composer c(rw);
  require_test(c);
  for (size_t i = 1; i < 5; ++i) {
    if (c.has_output(i))
      c.refuse(Code::Unsupported, "running statistics are outputs of training only; remove them");
  }
  c.replace(0, c.attrs().get_int("spatial") == 0
                   ? normalized_each(c)
                   : c.model("BatchNormalization", rw.node().inputs.list(),
                             c.given({"epsilon", "momentum"}), 9));
  return c.finish();
}

/// p is a float in version 1.
void set_power(Composer& c, AttrMap& a) {
  const float p = c.attrs().get_float("p");
  if (p != std::floor(p) || p < 1 || p > 64)
    c.refuse(Code::Unsupported, "p is " + std::to_string(p) + ", must be a whole number");
  if (c.ok()) a.set("p", static_cast<int64_t>(p));
}

Result<bool> lp_pool(Rewriter& rw) {
  Composer c(rw);
  AttrMap a = c.given({"auto_pad", "kernel_shape", "pads", "strides"});
  set_power(c, a);
  c.replace(0, c.model("LpPool", {c.in(0)}, std::move(a), 2));
  return c.finish();
}

Result<bool> global_lp_pool(Rewriter& rw) {
  Composer c(rw);
  AttrMap a;
  set_power(c, a);
  c.replace(0, c.model("GlobalLpPool", {c.in(0)}, std::move(a), 2));
  return c.finish();
}

/// `output_sequence` says only whether Y is used.
Result<bool> old_recurrent(Rewriter& rw) {
  Composer c(rw);
  AttrMap a = rw.node().attrs;
  a.erase("output_sequence");
  const size_t count = rw.node().outputs.size();
  const std::vector<V> out =
      c.model_all(name_in_models(rw.node()), rw.node().inputs.list(), std::move(a), count, 7);
  for (size_t i = 0; i < count; ++i) {
    if (c.has_output(i)) c.replace(i, out[i]);
  }
  return c.finish();
}

/// Normalises each channel, or all of them together, over the examples.
Result<bool> mean_variance(Rewriter& rw) {
  Composer c(rw);
  const DType t = c.dtype(c.in(0)), inner = accumulate_dtype(t);
  if (c.shape(c.in(0)).size() != 4) c.refuse(Code::InvalidModel, "the input must have rank 4");
  if (!c.ok()) return c.finish();
  const bool across = c.attrs().get_int("across_channels") != 0;
  const std::vector<int64_t> axes = across ? iota(0, 4) : std::vector<int64_t>{0, 2, 3};
  const V x = c.cast(c.in(0), inner);
  V y = c.sub(x, c.mean(x, axes));
  if (c.attrs().get_int("normalize_variance") != 0)
    y = c.div(y, c.op("Sqrt", {c.mean(c.mul(y, y), axes)}));
  c.replace(0, c.cast(y, t));
  return c.finish();
}

constexpr AttrDecl kOldDropoutAttrs[] = {int_attr("is_test", 0), float_attr("ratio", 0.5F)};
constexpr AttrDecl kOldBatchNormAttrs[] = {float_attr("epsilon", 1e-5F), int_attr("is_test", 0),
                                           float_attr("momentum", 0.9F), int_attr("spatial", 1)};
constexpr AttrDecl kPoolAttrs[] = {optional_attr("auto_pad", AttrType::String),
                                   optional_attr("kernel_shape", AttrType::Ints),
                                   float_attr("p", 2.0F), optional_attr("pads", AttrType::Ints),
                                   optional_attr("strides", AttrType::Ints)};
constexpr AttrDecl kGlobalPoolAttrs[] = {float_attr("p", 2.0F)};
constexpr AttrDecl kRnnAttrs[] = {optional_attr("activation_alpha", AttrType::Floats),
                                  optional_attr("activation_beta", AttrType::Floats),
                                  optional_attr("activations", AttrType::Strings),
                                  optional_attr("clip", AttrType::Float),
                                  string_attr("direction", "forward"),
                                  optional_attr("hidden_size", AttrType::Int),
                                  int_attr("output_sequence", 0)};
constexpr AttrDecl kGruAttrs[] = {optional_attr("activation_alpha", AttrType::Floats),
                                  optional_attr("activation_beta", AttrType::Floats),
                                  optional_attr("activations", AttrType::Strings),
                                  optional_attr("clip", AttrType::Float),
                                  string_attr("direction", "forward"),
                                  optional_attr("hidden_size", AttrType::Int),
                                  int_attr("linear_before_reset", 0),
                                  int_attr("output_sequence", 0)};
constexpr AttrDecl kLstmAttrs[] = {optional_attr("activation_alpha", AttrType::Floats),
                                   optional_attr("activation_beta", AttrType::Floats),
                                   optional_attr("activations", AttrType::Strings),
                                   optional_attr("clip", AttrType::Float),
                                   string_attr("direction", "forward"),
                                   optional_attr("hidden_size", AttrType::Int),
                                   int_attr("input_forget", 0),
                                   int_attr("output_sequence", 0)};
constexpr AttrDecl kVarianceAttrs[] = {int_attr("across_channels", 0),
                                       int_attr("normalize_variance", 1)};

}  // namespace

std::span<const OpDef> old_layer_ops() {
  static constexpr OpDef kOps[] = {
      old_row({"DropoutBefore7", "Dropout", 6}, old_dropout, {1, 1, 2}, kOldDropoutAttrs),
      old_row({"BatchNormalizationBefore9", "BatchNormalization", 8}, old_batch_norm, {5, 5, 5},
              kOldBatchNormAttrs),
      old_row({"LpPoolBefore2", "LpPool", 1}, lp_pool, {1, 1}, kPoolAttrs),
      old_row({"GlobalLpPoolBefore2", "GlobalLpPool", 1}, global_lp_pool, {1, 1}, kGlobalPoolAttrs),
      old_row({"RNNBefore7", "RNN", 6}, old_recurrent, {3, 6, 2}, kRnnAttrs),
      old_row({"GRUBefore7", "GRU", 6}, old_recurrent, {3, 6, 2}, kGruAttrs),
      old_row({"LSTMBefore7", "LSTM", 6}, old_recurrent, {3, 8, 3}, kLstmAttrs),
      old_row({"MeanVarianceNormalizationBefore9", "MeanVarianceNormalization", 8}, mean_variance,
              {1, 1}, kVarianceAttrs),
  };
  return kOps;
}

}  // namespace reprise::ops
