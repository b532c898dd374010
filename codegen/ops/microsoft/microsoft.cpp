// Operators that ONNX Runtime's optimiser and model builder write: com.microsoft, and
// SimplifiedLayerNormalization, which has the name of an operator of ai.onnx.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md defines them.
#include "codegen/ops/microsoft/microsoft.h"

#include <string>

#include "codegen/ops/math/normalize.h"
#include "codegen/ops/row/dims.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

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

Normalized normalize_last(OpBuilder& c, V x, Center center) {
  const auto last = std::ssize(c.shape(x)) - 1;
  return normalize(c, x, {last}, c.attrs().get_float("epsilon"), center);
}

/// Outputs from 1 on: one number for each row.
void set_statistics(InferContext& ctx, size_t count) {
  Shape s = ctx.shape(0);
  s.back() = 1;
  for (size_t i = 1; i <= count; ++i) ctx.set_output(i, DType::F32, s);
}

Status infer_simplified_norm(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_rank(ctx, 0, 1));
  RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis"), ctx.rank(0)));
  if (axis != ctx.rank(0) - 1)
    return ctx.error(Code::Unsupported, "axis must be the last one, is " + std::to_string(axis));
  RP_TRY(require_last_dim(ctx, 1));
  RP_TRY(infer_same(ctx));
  set_statistics(ctx, 1);
  return {};
}

Result<bool> simplified_norm(Rewriter& rw) {
  OpBuilder c(rw);
  const DType inner = accumulate_dtype(c.dtype(c.in(0)));
  const Normalized n = normalize_last(c, c.cast(c.in(0), inner), Center::Zero);
  c.replace(0, c.cast(c.mul(n.value, c.cast(c.in(1), inner)), c.dtype(c.in(0))));
  c.replace_cast(1, n.inverse_deviation);
  return c.finish();
}

Status infer_skip_norm(InferContext& ctx, size_t vectors) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_rank(ctx, 0, 2));
  RP_TRY(broadcast_shape(ctx, ctx.shape(1), ctx.shape(0), "skip"));
  for (size_t i = 2; i < 2 + vectors; ++i) RP_TRY(require_last_dim(ctx, i));
  RP_TRY(infer_same(ctx));
  set_statistics(ctx, 2);
  ctx.set_output(3, ctx.dtype(0), ctx.shape(0));
  return {};
}
Status infer_skip_layer_norm(InferContext& ctx) {
  return infer_skip_norm(ctx, 3);
}
Status infer_skip_rms_norm(InferContext& ctx) {
  if (ctx.node().outputs.size() > 1 && ctx.node().outputs[1] != graph::kNone)
    return ctx.error(Code::Unsupported, "the output 'mean' is not computed; remove it");
  return infer_skip_norm(ctx, 2);
}

/// The norm of input + skip + bias. The sum is an output of its own.
Result<bool> skip_norm(Rewriter& rw, Center center) {
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0)), inner = accumulate_dtype(t);
  const auto in = [&](size_t i) { return c.cast(c.in(i), inner); };
  const bool has_beta = center == Center::Mean;
  const size_t bias = has_beta ? 4 : 3;
  V sum = c.add(in(0), in(1));
  if (c.has(bias)) sum = c.add(sum, in(bias));
  const Normalized n = normalize_last(c, sum, center);
  V y = c.mul(n.value, in(2));
  if (has_beta && c.has(3)) y = c.add(y, in(3));
  c.replace(0, c.cast(y, t));
  c.replace_cast(1, n.mean);
  c.replace_cast(2, n.inverse_deviation);
  c.replace_cast(3, sum);
  return c.finish();
}
Result<bool> skip_layer_norm(Rewriter& rw) {
  return skip_norm(rw, Center::Mean);
}
Result<bool> skip_rms_norm(Rewriter& rw) {
  return skip_norm(rw, Center::Zero);
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
  kPositionIds
};

Status infer_embed_norm(InferContext& ctx) {
  RP_TRY(require_inputs(ctx, {kWords, kPositionTable, kGamma, kBeta}));
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
    return ctx.invalid("segment_ids and segment_embedding must be given together");
  for (const size_t i : {kSegments, kMask, kPositionIds}) {
    if (!ctx.has_input(i)) continue;
    RP_TRY(require_int(ctx, i));
    RP_TRY(broadcast_shape(ctx, ctx.shape(i), ids, "input '" + ctx.input(i).name + "'"));
  }
  if (!ctx.has_input(kPositionIds))
    ctx.at_least(ctx.shape(kPositionTable)[0], "the rows of the position table", ids[1],
                 "the length of input_ids");
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
  const DType t = c.dtype(c.in(kWords)), inner = accumulate_dtype(t);
  const Shape ids = c.shape(c.in(kIds));
  const auto rows = [&](size_t table, size_t index) {
    AttrMap a;
    a.set("axis", int64_t{0});
    return c.cast(c.op("Gather", {c.in(table), c.in(index)}, std::move(a)), inner);
  };
  const V positions = c.has(kPositionIds)
                          ? rows(kPositionTable, kPositionIds)
                          : c.cast(c.slice_axis(c.in(kPositionTable), 0, 0, ids[1]), inner);
  V sum = c.add(rows(kWords, kIds), positions);
  if (c.has(kSegments)) sum = c.add(sum, rows(kSegmentTable, kSegments));
  const Normalized n = normalize_last(c, sum, Center::Mean);
  const V scaled = c.mul(n.value, c.cast(c.in(kGamma), inner));
  c.replace(0, c.cast(c.add(scaled, c.cast(c.in(kBeta), inner)), t));
  if (c.has_output(1)) c.replace(1, mask_lengths(c, ids[0]));
  c.replace_cast(2, sum);
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

// --- Matrix multiplications ---------------------------------------------------------------------

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
    return c.transpose(c.in(i), operand_order(c.attrs(), i, std::ssize(c.shape(c.in(i)))));
  };
  const V y = c.matmul(operand(0), operand(1), c.shape(rw.node().outputs[0]));
  const double alpha = c.attrs().get_float("alpha");
  c.replace(0, alpha == 1 ? y : c.mul(y, alpha));
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
      microsoft_row("SkipLayerNormalization", infer_skip_layer_norm, skip_layer_norm, {3, 5, 4},
                    kEpsilonAttrs),
      microsoft_row("SkipSimplifiedLayerNormalization", infer_skip_rms_norm, skip_rms_norm,
                    {3, 4, 4}, kEpsilonAttrs),
      microsoft_row("EmbedLayerNormalization", infer_embed_norm, embed_norm, {1, 9, 3},
                    kEmbedAttrs),
      microsoft_row("BiasGelu", infer_biased, bias_gelu, {2, 2}),
      microsoft_row("FastGelu", infer_biased, fast_gelu, {1, 2}),
      microsoft_row("QuickGelu", infer_same_float, quick_gelu, {}, kQuickGeluAttrs),
      microsoft_row("BiasAdd", infer_bias_add, bias_add, {3, 3}),
      microsoft_row("BiasSplitGelu", infer_split_gelu, split_gelu, {2, 2}),
      microsoft_row("FusedMatMul", infer_fused_matmul, fused_matmul, {2, 2}, kFusedMatMulAttrs),
  };
  return kOps;
}

}  // namespace reprise::ops
