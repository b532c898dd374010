// Operators that ONNX Runtime's optimiser and model builder write: com.microsoft, and
// SimplifiedLayerNormalization, which has the name of an operator of ai.onnx.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md defines them.
#include <string>

#include "codegen/ops/dims.h"
#include "codegen/ops/families.h"
#include "codegen/ops/op_builder.h"
#include "codegen/ops/support.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

constexpr std::string_view kDomain = "com.microsoft";

bool wanted(OpBuilder& c, size_t i) {
  const auto& outputs = c.node().outputs;
  return i < outputs.size() && outputs[i] != graph::kNone;
}

/// Replaces output i, if the model uses it, in the output's dtype.
void replace_wanted(OpBuilder& c, size_t i, V v) {
  if (wanted(c, i)) c.replace(i, c.cast(v, c.dtype(c.node().outputs[i])));
}

/// The last dim of input 0 is that of the vector input i.
Status require_last_dim(const InferContext& ctx, size_t i) {
  if (!ctx.has_input(i)) return {};
  RP_TRY(require_rank(ctx, 0, 1));
  const Shape& s = ctx.shape(i);
  const bool fits = s.size() == 1 && ctx.unify(s[0], ctx.shape(0).back(), "last dims").ok();
  if (fits) return {};
  return ctx.invalid("input '" + ctx.input(i).name + "' must be a vector of the last dim of " +
                     ctx.str(ctx.shape(0)) + ", has shape " + ctx.str(s));
}

// --- Normalisation -------------------------------------------------------------------------------

struct Norm {
  V value, mean, inverse_deviation;
};

/// Normalises the last axis of x, without a mean if `rms`.
Norm normalize_last(OpBuilder& c, V x, bool rms) {
  const auto last = std::ssize(c.shape(x)) - 1;
  const double epsilon = c.attrs().get_float("epsilon");
  const V mean = rms ? graph::kNone : c.mean(x, {last});
  const V d = rms ? x : c.sub(x, mean);
  const V inverse = c.op("Rsqrt", {c.add(c.mean(c.mul(d, d), {last}), epsilon)});
  return {c.mul(d, inverse), mean, inverse};
}

void set_statistics(InferContext& ctx, size_t first, size_t count) {
  Shape s = ctx.shape(0);
  s.back() = 1;
  for (size_t i = first; i < first + count; ++i) ctx.set_output(i, DType::F32, s);
}

Status infer_simplified_norm(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_rank(ctx, 0, 1));
  RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis"), ctx.rank(0)));
  if (axis != ctx.rank(0) - 1)
    return ctx.error(Code::Unsupported, "axis must be the last one, is " + std::to_string(axis));
  RP_TRY(require_last_dim(ctx, 1));
  RP_TRY(infer_same(ctx));
  set_statistics(ctx, 1, 1);
  return {};
}

Result<bool> simplified_norm(Rewriter& rw) {
  OpBuilder c(rw);
  const DType inner = wide(c.dtype(c.in(0)));
  const Norm n = normalize_last(c, c.cast(c.in(0), inner), true);
  c.replace(0, c.cast(c.mul(n.value, c.cast(c.in(1), inner)), c.dtype(c.in(0))));
  replace_wanted(c, 1, n.inverse_deviation);
  return c.finish();
}

Status infer_skip_norm(InferContext& ctx, size_t vectors) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_rank(ctx, 0, 2));
  RP_TRY(broadcast_shape(ctx, ctx.shape(1), ctx.shape(0), "skip"));
  for (size_t i = 2; i < 2 + vectors; ++i) RP_TRY(require_last_dim(ctx, i));
  RP_TRY(infer_same(ctx));
  set_statistics(ctx, 1, 2);
  ctx.set_output(3, ctx.dtype(0), ctx.shape(0));
  return {};
}
Status infer_skip_layer_norm(InferContext& ctx) {
  return infer_skip_norm(ctx, 3);
}
Status infer_skip_rms_norm(InferContext& ctx) {
  return infer_skip_norm(ctx, 2);
}

/// The norm of input + skip + bias. The sum is an output of its own.
Result<bool> skip_norm(Rewriter& rw, bool rms) {
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0)), inner = wide(t);
  const auto in = [&](size_t i) { return c.cast(c.in(i), inner); };
  const size_t bias = rms ? 3 : 4;
  V sum = c.add(in(0), in(1));
  if (c.has(bias)) sum = c.add(sum, in(bias));
  const Norm n = normalize_last(c, sum, rms);
  V y = c.mul(n.value, in(2));
  if (!rms && c.has(3)) y = c.add(y, in(3));
  c.replace(0, c.cast(y, t));
  if (wanted(c, 1)) c.replace(1, rms ? c.scalar(DType::F32, 0) : c.cast(n.mean, DType::F32));
  replace_wanted(c, 2, n.inverse_deviation);
  replace_wanted(c, 3, sum);
  return c.finish();
}
Result<bool> skip_layer_norm(Rewriter& rw) {
  return skip_norm(rw, false);
}
Result<bool> skip_rms_norm(Rewriter& rw) {
  if (rw.node().outputs.size() > 1 && rw.node().outputs[1] != graph::kNone) {
    const InferContext ctx(rw.graph(), rw.node());
    return ctx.error(Code::Unsupported, "the output 'mean' is not computed; remove it");
  }
  return skip_norm(rw, true);
}

// Inputs of EmbedLayerNormalization.
enum : size_t {
  kIds,
  kSegments,
  kWords,
  kPositionTable,
  kSegmentTable,
  kGamma,
  kBeta,
  kMask,
  kPositions
};

Status infer_embed_norm(InferContext& ctx) {
  for (const size_t i : {kWords, kPositionTable, kGamma, kBeta})
    if (!ctx.has_input(i)) return ctx.invalid("input " + std::to_string(i) + " is missing");
  RP_TRY(require_int(ctx, kIds));
  if (ctx.rank(kIds) != 2)
    return ctx.invalid("input_ids must be a matrix, has shape " + ctx.str(ctx.shape(kIds)));
  RP_TRY(require_float(ctx, kWords));
  const Shape& ids = ctx.shape(kIds);
  for (const size_t i : {kWords, kPositionTable, kSegmentTable}) {
    if (!ctx.has_input(i)) continue;
    if (ctx.rank(i) != 2 || ctx.dtype(i) != ctx.dtype(kWords))
      return ctx.invalid("the table '" + ctx.input(i).name + "' must be a matrix of " +
                         std::string(name_of(ctx.dtype(kWords))));
    RP_TRY(ctx.unify(ctx.shape(i)[1], ctx.shape(kWords)[1], "columns of the tables").status());
  }
  for (const size_t i : {kGamma, kBeta})
    RP_TRY(broadcast_shape(ctx, ctx.shape(i), {ctx.shape(kWords)[1]}, "a row"));
  if (ctx.has_input(kSegments) != ctx.has_input(kSegmentTable))
    return ctx.invalid("segment_ids and segment_embedding need each other");
  for (const size_t i : {kSegments, kMask, kPositions}) {
    if (!ctx.has_input(i)) continue;
    RP_TRY(require_int(ctx, i));
    RP_TRY(broadcast_shape(ctx, ctx.shape(i), ids, "input '" + ctx.input(i).name + "'"));
  }
  const Shape out{ids[0], ids[1], ctx.shape(kWords)[1]};
  ctx.set_output(0, ctx.dtype(kWords), out);
  ctx.set_output(1, DType::I32, {ids[0]});
  ctx.set_output(2, ctx.dtype(kWords), out);
  return {};
}

/// The number of ones in each row of the mask; 0 without a mask.
V mask_lengths(OpBuilder& c, const Expr& batch) {
  if (!c.has(kMask)) return c.expand(c.scalar(DType::I32, 0), {batch});
  const V mask = c.in(kMask);
  const V ones = c.cast(c.op("Equal", {mask, c.scalar(c.dtype(mask), 1)}), DType::I32);
  return c.expand(c.reshape(c.reduce("ReduceSum", ones, {1}), {c.shape(mask)[0]}), {batch});
}

Result<bool> embed_norm(Rewriter& rw) {
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(kWords)), inner = wide(t);
  const Shape ids = c.shape(c.in(kIds));
  const auto rows = [&](size_t table, size_t index) {
    AttrMap a;
    a.set("axis", int64_t{0});
    return c.cast(c.op("Gather", {c.in(table), c.in(index)}, std::move(a)), inner);
  };
  const V positions = c.has(kPositions)
                          ? rows(kPositionTable, kPositions)
                          : c.cast(c.slice_axis(c.in(kPositionTable), 0, 0, ids[1]), inner);
  V sum = c.add(rows(kWords, kIds), positions);
  if (c.has(kSegments)) sum = c.add(sum, rows(kSegmentTable, kSegments));
  const Norm n = normalize_last(c, sum, false);
  const V scaled = c.mul(n.value, c.cast(c.in(kGamma), inner));
  c.replace(0, c.cast(c.add(scaled, c.cast(c.in(kBeta), inner)), t));
  if (wanted(c, 1)) c.replace(1, mask_lengths(c, ids[0]));
  replace_wanted(c, 2, sum);
  return c.finish();
}

// --- Activations ---------------------------------------------------------------------------------

Status infer_biased(InferContext& ctx) {
  RP_TRY(infer_same_float(ctx));
  return require_last_dim(ctx, 1);
}

V biased(OpBuilder& c) {
  return c.has(1) ? c.add(c.in(0), c.in(1)) : c.in(0);
}

Result<bool> bias_gelu(Rewriter& rw) {
  OpBuilder c(rw);
  c.replace(0, c.op("Gelu", {biased(c)}));
  return c.finish();
}

Result<bool> fast_gelu(Rewriter& rw) {
  OpBuilder c(rw);
  c.replace(0, c.op("GeluTanh", {biased(c)}));
  return c.finish();
}

Result<bool> quick_gelu(Rewriter& rw) {
  OpBuilder c(rw);
  const V gate = c.op("Sigmoid", {c.mul(c.in(0), c.attrs().get_float("alpha"))});
  c.replace(0, c.mul(c.in(0), gate));
  return c.finish();
}

Status infer_bias_add(InferContext& ctx) {
  RP_TRY(infer_same_float(ctx));
  RP_TRY(require_last_dim(ctx, 1));
  return broadcast_shape(ctx, ctx.shape(2), ctx.shape(0), "skip");
}

Result<bool> bias_add(Rewriter& rw) {
  OpBuilder c(rw);
  c.replace(0, c.add(c.add(c.in(0), c.in(1)), c.in(2)));
  return c.finish();
}

Status infer_split_gelu(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_last_dim(ctx, 1));
  Shape s = ctx.shape(0);
  s.back() = Expr::floordiv(s.back(), 2);
  ctx.set_output(0, ctx.dtype(0), std::move(s));
  return {};
}

Result<bool> split_gelu(Rewriter& rw) {
  OpBuilder c(rw);
  const V x = biased(c);
  const auto last = std::ssize(c.shape(x)) - 1;
  const Expr half = Expr::floordiv(c.shape(x).back(), 2);
  const V left = c.slice_axis(x, last, 0, half), right = c.slice_axis(x, last, half, half);
  c.replace(0, c.mul(left, c.op("Gelu", {right})));
  return c.finish();
}

// --- Products ------------------------------------------------------------------------------------

/// The order of the axes of an operand of FusedMatMul. `batch`: its first axis is that of the rows,
/// after all others but the last. `last`: rows and columns are exchanged.
std::vector<int64_t> operand_order(int64_t rank, bool batch, bool last) {
  std::vector<int64_t> order = iota(0, rank);
  if (batch && rank > 2) {
    order.erase(order.begin());
    order.insert(order.end() - 1, 0);
  }
  if (last && rank > 1) std::swap(order[order.size() - 2], order.back());
  return order;
}

std::vector<int64_t> operand_order(const Attributes& attrs, size_t i, int64_t rank) {
  return operand_order(rank, attrs.get_int(i == 0 ? "transBatchA" : "transBatchB") != 0,
                       attrs.get_int(i == 0 ? "transA" : "transB") != 0);
}

Status infer_fused_matmul(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_same_dtype(ctx));
  Shape operands[2];
  for (size_t i = 0; i < 2; ++i)
    for (const int64_t axis : operand_order(ctx.attrs(), i, ctx.rank(i)))
      operands[i].push_back(ctx.shape(i)[static_cast<size_t>(axis)]);
  RP_ASSIGN(Shape out, matmul_shape(ctx, operands[0], operands[1]));
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

Result<bool> fused_matmul(Rewriter& rw) {
  OpBuilder c(rw);
  const auto operand = [&](size_t i) {
    const V v = c.transpose(c.in(i), operand_order(c.attrs(), i, std::ssize(c.shape(c.in(i)))));
    const Shape s = c.shape(v);
    if (s.size() != 1) return v;
    return c.reshape(v, i == 0 ? Shape{1, s[0]} : Shape{s[0], 1});
  };
  const V y = c.op("MatMul", {operand(0), operand(1)});
  const double alpha = c.attrs().get_float("alpha");
  c.replace(0, c.reshape(alpha == 1 ? y : c.mul(y, alpha), c.shape(rw.node().outputs[0])));
  return c.finish();
}

constexpr AttrDecl kEpsilonAttrs[] = {float_attr("epsilon", 1e-12F)};
constexpr AttrDecl kEmbedAttrs[] = {float_attr("epsilon", 1e-12F), int_attr("mask_index_type", 0)};
constexpr AttrDecl kSimplifiedAttrs[] = {int_attr("axis", -1), float_attr("epsilon", 1e-5F),
                                         int_attr("stash_type", 1)};
constexpr AttrDecl kQuickGeluAttrs[] = {float_attr("alpha", 1.702F)};
constexpr AttrDecl kFusedMatMulAttrs[] = {float_attr("alpha", 1.0F), int_attr("transA", 0),
                                          int_attr("transB", 0), int_attr("transBatchA", 0),
                                          int_attr("transBatchB", 0)};

struct Counts {
  int min_inputs = 1, max_inputs = 1, max_outputs = 1;
};

constexpr OpDef contrib(std::string_view name, Status (*infer)(InferContext&),
                        Result<bool> (*decompose)(Rewriter&), Counts counts,
                        std::span<const AttrDecl> attributes = {}) {
  return {.name = name,
          .domain = kDomain,
          .infer = infer,
          .decompose = decompose,
          .min_inputs = counts.min_inputs,
          .max_inputs = counts.max_inputs,
          .max_outputs = counts.max_outputs,
          .attributes = attributes};
}

}  // namespace

std::span<const OpDef> microsoft_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "SimplifiedLayerNormalization",
       .infer = infer_simplified_norm,
       .decompose = simplified_norm,
       .min_inputs = 2,
       .max_inputs = 2,
       .max_outputs = 2,
       .attributes = kSimplifiedAttrs},
      contrib("SkipLayerNormalization", infer_skip_layer_norm, skip_layer_norm, {3, 5, 4},
              kEpsilonAttrs),
      contrib("SkipSimplifiedLayerNormalization", infer_skip_rms_norm, skip_rms_norm, {3, 4, 4},
              kEpsilonAttrs),
      contrib("EmbedLayerNormalization", infer_embed_norm, embed_norm, {1, 9, 3}, kEmbedAttrs),
      contrib("BiasGelu", infer_biased, bias_gelu, {2, 2}),
      contrib("FastGelu", infer_biased, fast_gelu, {1, 2}),
      contrib("QuickGelu", infer_same_float, quick_gelu, {}, kQuickGeluAttrs),
      contrib("BiasAdd", infer_bias_add, bias_add, {3, 3}),
      contrib("BiasSplitGelu", infer_split_gelu, split_gelu, {2, 2}),
      contrib("FusedMatMul", infer_fused_matmul, fused_matmul, {2, 2}, kFusedMatMulAttrs),
  };
  return kOps;
}

}  // namespace reprise::ops
