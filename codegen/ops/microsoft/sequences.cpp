// Operators of com.microsoft on sequences that models of language have, written in operators of
// ONNX. https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md defines them.
#include <cmath>
#include <string>

#include "codegen/ops/microsoft/microsoft.h"
#include "codegen/ops/row/composed.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

/// Fails if an attribute has another value than the one that is supported.
void require_value(Composer& c, const char* name, int64_t value) {
  const int64_t given = c.attrs().get_int(name);
  if (given != value)
    c.refuse(Code::Unsupported, std::string(name) + " is " + std::to_string(given) + ", must be " +
                                    std::to_string(value));
}

void replace_all(Composer& c, const std::vector<V>& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    if (c.has_output(i)) c.replace(i, results[i]);
  }
}

// --- Layers with a state, which ONNX has from version 27 on
// ---------------------------------------

Result<bool> linear_attention(Rewriter& rw) {
  Composer c(rw);
  require_value(c, "state_window", 0);
  replace_all(
      c, c.model_all("LinearAttention", rw.node().inputs.list(),
                     c.given({"chunk_size", "kv_num_heads", "q_num_heads", "scale", "update_rule"}),
                     2, 27));
  return c.finish();
}

Result<bool> causal_conv(Rewriter& rw) {
  Composer c(rw);
  for (const char* name : {"channels_last", "input_channel_offset", "input_channels",
                           "state_length", "state_update_capacity", "state_window"})
    require_value(c, name, 0);
  require_value(c, "dilation", 1);
  require_value(c, "ndim", 1);
  require_value(c, "state_channels_last", -1);
  if (c.has_output(2)) c.refuse(Code::Unsupported, "the output 'state_update' is not supported");
  replace_all(c, c.model_all("CausalConvWithState", rw.node().inputs.list(),
                             c.given({"activation"}), 2, 27));
  return c.finish();
}

// --- RelativePositionBias ------------------------------------------------------------------------

/// The distances from which the buckets after `exact` begin, up to the last of `count` buckets. The
/// first `exact` buckets hold one distance each, the others grow with its logarithm, as PyTorch
/// rounds it.
std::vector<int64_t> bucket_starts(int64_t exact, int64_t count, int64_t most) {
  std::vector<int64_t> starts;
  const auto first = static_cast<float>(exact);
  const float whole = std::log(static_cast<float>(most) / first);
  for (int64_t n = exact; n <= most && std::ssize(starts) < count - exact - 1; ++n) {
    const float share = std::log(static_cast<float>(n) / first) / whole;
    const auto bucket = static_cast<int64_t>(share * static_cast<float>(count - exact));
    while (std::ssize(starts) < bucket && std::ssize(starts) < count - exact - 1)
      starts.push_back(n);
  }
  return starts;
}

/// The bucket of each distance, an int32 of at least 0.
V buckets_of(Composer& c, V distance, int64_t count, int64_t most) {
  const int64_t exact = count / 2;
  V bucket = c.min(distance, static_cast<double>(exact));
  for (const int64_t start : bucket_starts(exact, count, most)) {
    const V beyond =
        c.op("GreaterOrEqual", {distance, c.scalar(DType::I32, static_cast<double>(start))});
    bucket = c.add(bucket, c.cast(beyond, DType::I32));
  }
  return bucket;
}

/// [1, heads, queries, keys]: a number of the table for each head and distance.
Result<bool> relative_bias(Rewriter& rw) {
  Composer c(rw);
  const InferContext ctx(rw.graph(), rw.node());
  const Shape table = c.shape(c.in(0));
  const auto queries = ctx.elements(1), keys = ctx.elements(2);
  const bool both = c.attrs().get_int("is_bidirectional") != 0;
  const int64_t most = c.attrs().get_int("max_distance");
  if (table.size() != 2 || !table[0].is_const() || table[0].value() < (both ? 4 : 2))
    c.refuse(Code::InvalidModel, "bias_table must be a matrix with a constant number of buckets");
  if (!queries || !keys || queries->size() != 1 || keys->size() != 1)
    c.refuse(Code::Unsupported, "query_length and key_length must follow from shapes");
  if (!c.ok()) return c.finish();
  const int64_t count = both ? table[0].value() / 2 : table[0].value();
  constexpr int64_t kMostBuckets = 1024, kMostDistance = int64_t{1} << 16;
  if (count > kMostBuckets || most > kMostDistance)
    c.refuse(Code::Unsupported,
             "more than 1024 buckets, or a max_distance above 65536, are not supported");
  if (most <= count / 2) c.refuse(Code::InvalidModel, "max_distance is too small for the buckets");
  const Expr &rows = (*queries)[0], &columns = (*keys)[0];
  const V relative =
      c.sub(c.reshape(c.positions(columns), {1, columns}), c.reshape(c.positions(rows), {rows, 1}));
  const V distance = both ? c.op("Abs", {relative}) : c.max(c.op("Neg", {relative}), 0.0);
  V bucket = buckets_of(c, distance, count, most);
  if (both) {
    const V later = c.op("Greater", {relative, c.scalar(DType::I32, 0)});
    bucket = c.add(bucket, c.mul(c.cast(later, DType::I32), static_cast<double>(count)));
  }
  // The table holds the numbers of one head after another, whatever its shape says.
  const V heads = c.reshape(c.in(0), {table[1], table[0]});
  const V bias = c.model("Gather", {heads, bucket}, attributes({{"axis", int64_t{1}}}));
  c.replace(0, c.reshape(bias, {1, table[1], rows, columns}));
  return c.finish();
}

constexpr AttrDecl kLinearAttrs[] = {int_attr("chunk_size", 64),
                                     required_attr("kv_num_heads", AttrType::Int),
                                     required_attr("q_num_heads", AttrType::Int),
                                     float_attr("scale", 0.0F),
                                     int_attr("state_window", 0),
                                     string_attr("update_rule", "gated_delta")};
constexpr AttrDecl kCausalConvAttrs[] = {string_attr("activation", "none"),
                                         int_attr("channels_last", 0),
                                         int_attr("dilation", 1),
                                         int_attr("input_channel_offset", 0),
                                         int_attr("input_channels", 0),
                                         int_attr("ndim", 1),
                                         int_attr("state_channels_last", -1),
                                         int_attr("state_length", 0),
                                         int_attr("state_update_capacity", 0),
                                         int_attr("state_window", 0)};
constexpr AttrDecl kBiasAttrs[] = {int_attr("is_bidirectional", 0),
                                   required_attr("max_distance", AttrType::Int)};

}  // namespace

std::span<const OpDef> microsoft_sequences_ops() {
  static constexpr OpDef kOps[] = {
      renamed(composed_row("ContribLinearAttention", linear_attention, {3, 6, 2}, kLinearAttrs),
              "LinearAttention"),
      renamed(composed_row("ContribCausalConvWithState", causal_conv, {2, 4, 3}, kCausalConvAttrs),
              "CausalConvWithState"),
      composed_row("RelativePositionBias", relative_bias, {3, 3}, kBiasAttrs),
  };
  return kOps;
}

}  // namespace reprise::ops
