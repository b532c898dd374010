// Normalisations, as reductions and scalar operations. Mean and variance are computed in two
// passes, and 16-bit floats in float32.
#include <cmath>

#include "codegen/ops/math/normalize.h"
#include "codegen/ops/row/dims.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

Normalized normalize(OpBuilder& c, graph::ValueId x, const std::vector<int64_t>& axes,
                     double epsilon, Center center) {
  const graph::ValueId mean = center == Center::Mean ? c.mean(x, axes) : graph::kNone;
  const graph::ValueId d = center == Center::Mean ? c.sub(x, mean) : x;
  const graph::ValueId variance = c.mean(c.mul(d, d), axes);
  const graph::ValueId inverse = c.op("Rsqrt", {c.add(variance, epsilon)});
  return {c.mul(d, inverse), mean, inverse};
}

namespace {

using V = OpBuilder::V;

/// The dtype that stash_type names, but not narrower than float32.
DType stash_dtype(const Attributes& attrs, DType input) {
  const DType t = dtype_from_onnx(attrs.get_int("stash_type"));
  return input == DType::F64 ? DType::F64 : accumulate_dtype(is_float(t) ? t : DType::F32);
}

V channel(OpBuilder& c, V v, DType t, int64_t rank) {
  return c.along_axis(c.cast(v, t), 1, rank);
}

Status require_channels(const InferContext& ctx, size_t i, const Expr& channels) {
  if (!ctx.has_input(i)) return {};
  const Shape& s = ctx.shape(i);
  if (s.size() != 1) {
    return ctx.invalid("input '" + ctx.input(i).name + "' must be a vector, has shape " +
                       ctx.str(s));
  }
  const auto same = ctx.unify(s[0], channels, "channels");
  if (same.ok()) return {};
  return ctx.invalid("input '" + ctx.input(i).name + "' has " + s[0].str(ctx.graph_symbols()) +
                     " entries for " + channels.str(ctx.graph_symbols()) + " channels");
}

// --- LayerNormalization, RMSNormalization --------------------------------------------------------

Status check_affine(const InferContext& ctx, size_t i) {
  if (!ctx.has_input(i)) return {};
  return broadcast_shape(ctx, ctx.shape(i), ctx.shape(0), "input '" + ctx.input(i).name + "'");
}

Status infer_layer_norm(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis"), ctx.rank(0)));
  RP_TRY(check_affine(ctx, 1));
  RP_TRY(check_affine(ctx, 2));
  RP_TRY(infer_same(ctx));
  Shape reduced = ctx.shape(0);
  for (auto d = static_cast<size_t>(axis); d < reduced.size(); ++d) reduced[d] = 1;
  const DType stash = dtype_from_onnx(ctx.attrs().get_int("stash_type"));
  if (!is_float(stash))
    return ctx.error(Code::Unsupported,
                     "stash_type must be a float type, is " + std::string(name_of(stash)));
  ctx.set_output(1, stash, reduced);
  ctx.set_output(2, stash, reduced);
  return {};
}

std::vector<int64_t> trailing_axes(OpBuilder& c) {
  const auto rank = static_cast<int64_t>(c.shape(c.in(0)).size());
  const int64_t axis = c.attrs().get_int("axis");
  return iota(axis < 0 ? axis + rank : axis, rank);
}

Result<bool> layer_norm(Rewriter& rw) {
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  const DType inner = stash_dtype(c.attrs(), t);
  const double epsilon = c.attrs().get_float("epsilon");
  const Normalized n = normalize(c, c.cast(c.in(0), inner), trailing_axes(c), epsilon);
  V y = c.mul(n.value, c.cast(c.in(1), inner));
  if (c.has(2)) y = c.add(y, c.cast(c.in(2), inner));
  c.replace(0, c.cast(y, t));
  c.replace_cast(1, n.mean);
  c.replace_cast(2, n.inverse_deviation);
  return c.finish();
}

Result<bool> rms_norm(Rewriter& rw) {
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  const DType inner = stash_dtype(c.attrs(), t);
  const double epsilon = c.attrs().get_float("epsilon");
  const Normalized n =
      normalize(c, c.cast(c.in(0), inner), trailing_axes(c), epsilon, Center::Zero);
  c.replace(0, c.cast(c.mul(n.value, c.cast(c.in(1), inner)), t));
  return c.finish();
}

// --- InstanceNormalization, GroupNormalization ---------------------------------------------------

Status infer_instance_norm(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_rank(ctx, 0, 3));
  RP_TRY(require_channels(ctx, 1, ctx.shape(0)[1]));
  RP_TRY(require_channels(ctx, 2, ctx.shape(0)[1]));
  return infer_same(ctx);
}

Result<bool> instance_norm(Rewriter& rw) {
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  const auto rank = static_cast<int64_t>(c.shape(c.in(0)).size());
  const double epsilon = c.attrs().get_float("epsilon");
  const V x = c.cast(c.in(0), accumulate_dtype(t));
  // Each row gets one scale and one shift, so that a long row is not stored as differences from its
  // mean.
  const Normalized n = normalize(c, x, iota(2, rank), epsilon);
  const V scale = c.mul(n.inverse_deviation, channel(c, c.in(1), accumulate_dtype(t), rank));
  const V shift = c.sub(channel(c, c.in(2), accumulate_dtype(t), rank), c.mul(n.mean, scale));
  c.replace(0, c.cast(c.add(c.mul(x, scale), shift), t));
  return c.finish();
}

Status infer_group_norm(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_rank(ctx, 0, 2));
  const int64_t groups = ctx.attrs().get_int("num_groups");
  if (groups < 1)
    return ctx.invalid("num_groups is " + std::to_string(groups) + ", must be positive");
  const Expr channels = ctx.shape(0)[1];
  if (channels.is_const() && channels.value() % groups != 0) {
    return ctx.invalid(std::to_string(channels.value()) + " channels are not a multiple of " +
                       std::to_string(groups) + " groups");
  }
  const Expr entries = ctx.opset() < 21 ? Expr(groups) : channels;
  RP_TRY(require_channels(ctx, 1, entries));
  RP_TRY(require_channels(ctx, 2, entries));
  return infer_same(ctx);
}

/// Before opset 21, scale and bias have one entry per group. Since then they have one per channel.
Result<bool> group_norm(Rewriter& rw) {
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  const DType inner = stash_dtype(c.attrs(), t);
  const Shape shape = c.shape(c.in(0));
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t groups = c.attrs().get_int("num_groups");
  const double epsilon = c.attrs().get_float("epsilon");
  const bool per_group = c.opset() != 0 && c.opset() < 21;
  Expr rest = 1;
  const auto total = Expr::divide_exact(product(shape, 1, shape.size()), Expr(groups));
  rest = total ? *total : Expr::floordiv(product(shape, 1, shape.size()), Expr(groups));
  const V x = c.reshape(c.cast(c.in(0), inner), {shape[0], Expr(groups), rest});
  V y = normalize(c, x, {2}, epsilon).value;
  const int64_t at_rank = per_group ? 3 : rank;
  if (!per_group) y = c.reshape(y, shape);
  y = c.mul(y, channel(c, c.in(1), inner, at_rank));
  y = c.add(y, channel(c, c.in(2), inner, at_rank));
  c.replace(0, c.cast(c.reshape(y, shape), t));
  return c.finish();
}

// --- BatchNormalization --------------------------------------------------------------------------

Status infer_batch_norm(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_rank(ctx, 0, 1));
  const bool training = ctx.attrs().get_int("training_mode") != 0;
  if (ctx.attrs().get_int("spatial") == 0) {
    return ctx.error(Code::Unsupported, "spatial = 0 is not supported; use opset 9 or later");
  }
  const size_t most_outputs = training ? 3 : 1;
  for (size_t i = most_outputs; i < ctx.node().outputs.size(); ++i) {
    if (ctx.node().outputs[i] == graph::kNone) continue;
    return ctx.error(Code::Unsupported,
                     training ? "saved statistics are outputs of versions before 14 only"
                              : "running statistics are outputs of training only");
  }
  const Expr channels = ctx.rank(0) > 1 ? ctx.shape(0)[1] : Expr(1);
  for (size_t i = 1; i < 5; ++i) RP_TRY(require_channels(ctx, i, channels));
  ctx.set_output(1, ctx.dtype(3), ctx.shape(3));
  ctx.set_output(2, ctx.dtype(4), ctx.shape(4));
  return infer_same(ctx);
}

/// scale / sqrt(variance + epsilon), and bias - mean * that, in double, if all inputs are constant.
std::optional<std::pair<std::vector<double>, std::vector<double>>> folded_batch_norm(
    Rewriter& rw, double epsilon) {
  std::vector<std::vector<double>> p;
  for (size_t i = 1; i < 5; ++i) {
    auto v = constant_numbers(rw.input(i));
    if (!v || (i > 1 && v->size() != p[0].size())) return std::nullopt;
    p.push_back(std::move(*v));
  }
  std::vector<double> scale = p[0];
  std::vector<double> shift = p[1];
  for (size_t i = 0; i < scale.size(); ++i) {
    scale[i] /= std::sqrt(p[3][i] + epsilon);
    shift[i] -= p[2][i] * scale[i];
  }
  return std::pair(std::move(scale), std::move(shift));
}

/// Normalises with the statistics of the batch, and moves the running ones towards them.
Result<bool> batch_norm_in_training(OpBuilder& c) {
  const DType t = c.dtype(c.in(0));
  const DType inner = accumulate_dtype(t);
  const Shape shape = c.shape(c.in(0));
  const auto rank = static_cast<int64_t>(shape.size());
  const double epsilon = c.attrs().get_float("epsilon");
  const double momentum = c.attrs().get_float("momentum");
  // [N] has one channel.
  const V x = c.reshape(c.cast(c.in(0), inner), rank > 1 ? shape : Shape{shape[0], Expr(1)});
  const int64_t at = std::max<int64_t>(rank, 2);
  std::vector<int64_t> axes = iota(0, at);
  axes.erase(axes.begin() + 1);
  const V mean = c.mean(x, axes);
  const V difference = c.sub(x, mean);
  const V variance = c.mean(c.mul(difference, difference), axes);
  const V inverse = c.op("Rsqrt", {c.add(variance, epsilon)});
  V y = c.mul(c.mul(difference, inverse), channel(c, c.in(1), inner, at));
  y = c.add(y, channel(c, c.in(2), inner, at));
  c.replace(0, c.cast(c.reshape(y, shape), t));
  for (size_t i = 1; i < 3; ++i) {
    const V running = c.in(i + 2);
    const V now = c.reshape(i == 1 ? mean : variance, c.shape(running));
    const V moved = c.add(c.mul(c.cast(running, inner), momentum), c.mul(now, 1 - momentum));
    c.replace(i, c.cast(moved, c.dtype(running)));
  }
  return c.finish();
}

Result<bool> batch_norm(Rewriter& rw) {
  OpBuilder c(rw);
  if (c.attrs().get_int("training_mode") != 0) return batch_norm_in_training(c);
  const DType t = c.dtype(c.in(0));
  const DType inner = accumulate_dtype(t);
  const auto rank = static_cast<int64_t>(c.shape(c.in(0)).size());
  const int64_t at = rank > 1 ? rank : 2;
  const double epsilon = c.attrs().get_float("epsilon");
  const V x = c.cast(c.in(0), inner);
  V y = graph::kNone;
  if (const auto folded = folded_batch_norm(rw, epsilon)) {
    const auto n = static_cast<int64_t>(folded->first.size());
    const V scale = c.constant(float_tensor(inner, {n}, folded->first));
    const V shift = c.constant(float_tensor(inner, {n}, folded->second));
    y = c.add(c.mul(x, channel(c, scale, inner, at)), channel(c, shift, inner, at));
  } else {
    const V deviation = c.op("Rsqrt", {c.add(c.cast(c.in(4), inner), epsilon)});
    const V scale = c.mul(c.cast(c.in(1), inner), deviation);
    y = c.mul(c.sub(x, channel(c, c.in(3), inner, at)), channel(c, scale, inner, at));
    y = c.add(y, channel(c, c.in(2), inner, at));
  }
  c.replace(0, c.cast(c.reshape(y, c.shape(c.in(0))), t));
  return c.finish();
}

// --- Others --------------------------------------------------------------------------------------

Status infer_lp_norm(InferContext& ctx) {
  const int64_t p = ctx.attrs().get_int("p");
  if (p != 1 && p != 2) return ctx.invalid("p is " + std::to_string(p) + ", must be 1 or 2");
  RP_ASSIGN([[maybe_unused]] const int64_t a, ctx.axis(ctx.attrs().get_int("axis"), ctx.rank(0)));
  return infer_same_float(ctx);
}

/// If the norm is zero, all elements are zero and stay so.
Result<bool> lp_norm(Rewriter& rw) {
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  const V x = c.cast(c.in(0), accumulate_dtype(t));
  const auto rank = static_cast<int64_t>(c.shape(x).size());
  const int64_t given = c.attrs().get_int("axis");
  const std::vector<int64_t> axes{given < 0 ? given + rank : given};
  const bool absolute = c.attrs().get_int("p") == 1;
  const V terms = absolute ? c.op("Abs", {x}) : c.mul(x, x);
  const V sum = c.reduce("ReduceSum", terms, axes);
  const V norm = absolute ? sum : c.op("Sqrt", {sum});
  const V zero = c.scalar(c.dtype(x), 0);
  const V y = c.where(c.op("Equal", {norm, zero}), zero, c.div(x, norm));
  c.replace(0, c.cast(y, t));
  return c.finish();
}

Status infer_lrn(InferContext& ctx) {
  RP_TRY(require_rank(ctx, 0, 3));
  const int64_t size = ctx.attrs().get_int("size");
  if (size < 1 || size > 256) {
    return ctx.error(Code::Unsupported, "size is " + std::to_string(size) + ", must be 1 to 256");
  }
  return infer_same_float(ctx);
}

/// x / (bias + alpha / size * sum of squares over `size` neighbouring channels) ^ beta
Result<bool> lrn(Rewriter& rw) {
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  const V x = c.cast(c.in(0), accumulate_dtype(t));
  const Shape shape = c.shape(x);
  const int64_t size = c.attrs().get_int("size");
  const double alpha = c.attrs().get_float("alpha");
  const double beta = c.attrs().get_float("beta");
  const double bias = c.attrs().get_float("bias");
  std::vector<Expr> pads(2 * shape.size(), Expr(0));
  pads[1] = (size - 1) / 2;
  pads[shape.size() + 1] = size - 1 - (size - 1) / 2;
  AttrMap a;
  a.set("mode", std::string("constant"));
  a.set("pads", std::move(pads));
  const V squares = c.op("Pad", {c.mul(x, x)}, std::move(a));
  V sum = c.slice_axis(squares, 1, 0, shape[1]);
  for (int64_t i = 1; i < size; ++i) {
    sum = c.add(sum, c.slice_axis(squares, 1, Expr(i), shape[1]));
  }
  const V base = c.add(c.mul(sum, alpha / static_cast<double>(size)), bias);
  const V y = c.div(x, c.op("Pow", {base, c.scalar(c.dtype(x), beta)}));
  c.replace(0, c.cast(y, t));
  return c.finish();
}

Status infer_mvn(InferContext& ctx) {
  RP_ASSIGN([[maybe_unused]] const auto axes, ctx.axes(ctx.attrs().get_ints("axes"), ctx.rank(0)));
  return infer_same_float(ctx);
}

/// (x - mean) / (deviation + 1e-9)
Result<bool> mvn(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const auto axes, ctx.axes(Attributes(rw.node()).get_ints("axes"), ctx.rank(0)));
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  const V x = c.cast(c.in(0), accumulate_dtype(t));
  const V d = c.sub(x, c.mean(x, axes));
  const V deviation = c.op("Sqrt", {c.mean(c.mul(d, d), axes)});
  c.replace(0, c.cast(c.div(d, c.add(deviation, 1e-9)), t));
  return c.finish();
}

constexpr AttrDecl kLayerNormAttrs[] = {int_attr("axis", -1), float_attr("epsilon", 1e-5F),
                                        int_attr("stash_type", 1)};
constexpr AttrDecl kInstanceNormAttrs[] = {float_attr("epsilon", 1e-5F)};
constexpr AttrDecl kGroupNormAttrs[] = {float_attr("epsilon", 1e-5F),
                                        required_attr("num_groups", AttrType::Int),
                                        int_attr("stash_type", 1)};
constexpr AttrDecl kBatchNormAttrs[] = {float_attr("epsilon", 1e-5F), float_attr("momentum", 0.9F),
                                        int_attr("spatial", 1), int_attr("training_mode", 0)};
constexpr AttrDecl kLpNormAttrs[] = {int_attr("axis", -1), int_attr("p", 2)};
constexpr AttrDecl kLrnAttrs[] = {float_attr("alpha", 1e-4F), float_attr("beta", 0.75F),
                                  float_attr("bias", 1.0F), required_attr("size", AttrType::Int)};
constexpr int64_t kMvnAxes[] = {0, 2, 3};
constexpr AttrDecl kMvnAttrs[] = {
    {.name = "axes", .type = AttrType::Ints, .fallback = std::span<const int64_t>(kMvnAxes)}};

}  // namespace

std::span<const OpDef> normalization_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "LayerNormalization",
       .infer = infer_layer_norm,
       .decompose = layer_norm,
       .min_inputs = 2,
       .max_inputs = 3,
       .max_outputs = 3,
       .attributes = kLayerNormAttrs,
       .host_rounding = HostRounding::Sum},
      {.name = "RMSNormalization",
       .infer = infer_layer_norm,
       .decompose = rms_norm,
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = kLayerNormAttrs},
      {.name = "InstanceNormalization",
       .infer = infer_instance_norm,
       .decompose = instance_norm,
       .min_inputs = 3,
       .max_inputs = 3,
       .attributes = kInstanceNormAttrs},
      {.name = "GroupNormalization",
       .infer = infer_group_norm,
       .decompose = group_norm,
       .min_inputs = 3,
       .max_inputs = 3,
       .attributes = kGroupNormAttrs},
      {.name = "BatchNormalization",
       .infer = infer_batch_norm,
       .decompose = batch_norm,
       .min_opset = 7,
       .min_inputs = 5,
       .max_inputs = 5,
       .max_outputs = 5,
       .attributes = kBatchNormAttrs},
      {.name = "LpNormalization",
       .infer = infer_lp_norm,
       .decompose = lp_norm,
       .attributes = kLpNormAttrs},
      {.name = "LRN", .infer = infer_lrn, .decompose = lrn, .attributes = kLrnAttrs},
      {.name = "MeanVarianceNormalization",
       .infer = infer_mvn,
       .decompose = mvn,
       .attributes = kMvnAttrs},
  };
  return kOps;
}

}  // namespace reprise::ops
