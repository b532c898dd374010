// AffineGrid and DeformConv: the positions at which GridSample reads images.
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/support.h"
#include "codegen/ops/row/window.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

// --- AffineGrid ----------------------------------------------------------------------------------

/// theta [N, r, r + 1] and the size [N, C, r spatial dims] give the grid [N, r spatial dims, r].
Status infer_affine_grid(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_int(ctx, 1));
  const Shape& theta = ctx.shape(0);
  const bool plane = theta.size() == 3 && theta[1].is_const(2) && theta[2].is_const(3);
  const bool space = theta.size() == 3 && theta[1].is_const(3) && theta[2].is_const(4);
  if (!plane && !space) {
    return ctx.invalid("theta must have shape [N,2,3] or [N,3,4], has " + ctx.str(theta));
  }
  const size_t rank = plane ? 2 : 3;
  const auto size = ctx.elements(1);
  if (size && size->size() != rank + 2) {
    return ctx.invalid("size has " + std::to_string(size->size()) + " entries, expected " +
                       std::to_string(rank + 2) + " for theta " + ctx.str(theta));
  }
  Shape out{theta[0]};
  for (size_t d = 1; d <= rank; ++d) out.push_back(size ? (*size)[d + 1] : ctx.fresh_symbol(0, d));
  if (size) {
    RP_ASSIGN(out[0], ctx.unify((*size)[0], theta[0], "the batch of size and theta"));
  }
  out.emplace_back(static_cast<int64_t>(rank));
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

/// The coordinates along an axis of this size: from -1 to 1, at the outer edges of the outer pixels
/// or at their centres. A single pixel is at 0.
V grid_coordinates(OpBuilder& c, const Expr& size, bool align_corners, DType t) {
  const V twice = c.mul(c.cast(c.positions(size), t), 2.0);
  const V last = c.sub(c.expr_value(size, t), 1.0);
  const V from_centre = c.sub(twice, last);
  return c.div(from_centre, align_corners ? c.max(last, 1.0) : c.add(last, 1.0));
}

Result<bool> affine_grid(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  if (!ctx.elements(1)) return false;
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  const Shape out = c.shape(rw.node().outputs[0]);
  const auto rank = static_cast<int64_t>(out.size()) - 2;
  const bool align_corners = c.attrs().get_int("align_corners") != 0;
  const V theta = c.cast(c.in(0), accumulate_dtype(t));
  Shape column(out.size(), Expr(1));
  column.front() = out.front();
  column.back() = out.back();
  // Coordinate 0 is along the last spatial axis.
  V sum = c.reshape(c.slice_axis(theta, 2, Expr(rank), 1), column);
  for (int64_t k = 0; k < rank; ++k) {
    const int64_t axis = rank - k;
    const V at =
        grid_coordinates(c, out[static_cast<size_t>(axis)], align_corners, accumulate_dtype(t));
    const V factor = c.reshape(c.slice_axis(theta, 2, Expr(k), 1), column);
    sum = c.add(sum, c.mul(factor, c.along_axis(at, axis, rank + 2)));
  }
  c.replace(0, c.cast(sum, t));
  return c.finish();
}

// --- DeformConv ----------------------------------------------------------------------------------

struct DeformWindow {
  std::vector<int64_t> kernel, strides, dilations, pads;
  int64_t group = 1;
  int64_t offset_group = 1;

  int64_t taps() const { return kernel[0] * kernel[1]; }
};

Result<DeformWindow> deform_window(const InferContext& ctx) {
  DeformWindow w;
  RP_ASSIGN(w.kernel, kernel_of_weight(ctx, 1));
  RP_ASSIGN(w.strides, spatial_ints(ctx, "strides", 2, 1, 1));
  RP_ASSIGN(w.dilations, spatial_ints(ctx, "dilations", 2, 1, 1));
  RP_ASSIGN(w.pads, spatial_ints(ctx, "pads", 4, 0, 0));
  w.group = ctx.attrs().get_int("group");
  w.offset_group = ctx.attrs().get_int("offset_group");
  if (w.group < 1 || w.offset_group < 1) {
    return ctx.invalid("group is " + std::to_string(w.group) + " and offset_group is " +
                       std::to_string(w.offset_group) + ", both must be positive");
  }
  return w;
}

/// X [N, C, H, W], W [M, C / group, kh, kw], offset [N, offset_group * kh * kw * 2, OH, OW], B [M],
/// mask [N, offset_group * kh * kw, OH, OW].
Status infer_deform_conv(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_same_dtype(ctx));
  if (ctx.rank(0) != 4 || ctx.rank(1) != 4 || ctx.rank(2) != 4) {
    return ctx.error(Code::Unsupported, "X " + ctx.str(ctx.shape(0)) + ", W " +
                                            ctx.str(ctx.shape(1)) + " and offset " +
                                            ctx.str(ctx.shape(2)) + " must have rank 4");
  }
  RP_ASSIGN(const DeformWindow w, deform_window(ctx));
  const Shape& x = ctx.shape(0);
  const Shape& weight = ctx.shape(1);
  const Shape& offset = ctx.shape(2);
  const Expr coordinates(w.offset_group * w.taps() * 2);
  RP_TRY(ctx.unify(x[1], weight[1] * Expr(w.group), "channels of X and W").status());
  RP_TRY(ctx.unify(offset[1], coordinates, "channels of offset and the kernel").status());
  for (const int64_t groups : {w.group, w.offset_group}) {
    const Expr& channels = groups == w.group ? weight[0] : x[1];
    if (channels.is_const() && channels.value() % groups != 0) {
      return ctx.invalid(std::to_string(channels.value()) + " channels are not a multiple of " +
                         std::to_string(groups) + " groups");
    }
  }
  Shape out{x[0], weight[0]};
  RP_ASSIGN(out[0], ctx.unify(x[0], offset[0], "batches of X and offset"));
  for (size_t d = 0; d < 2; ++d) {
    const Expr room =
        x[2 + d] + Expr(w.pads[d] + w.pads[2 + d]) - Expr(w.dilations[d] * (w.kernel[d] - 1) + 1);
    const Expr size = Expr::floordiv(room, Expr(w.strides[d])) + 1;
    RP_ASSIGN(const Expr same, ctx.unify(offset[2 + d], size, "sizes of offset and the result"));
    out.push_back(same);
  }
  if (ctx.has_input(3)) {
    if (ctx.rank(3) != 1) return ctx.invalid("B must be a vector, has " + ctx.str(ctx.shape(3)));
    RP_TRY(ctx.unify(ctx.shape(3)[0], weight[0], "entries of B and channels of W").status());
  }
  if (ctx.has_input(4)) {
    const Shape mask{out[0], Expr(w.offset_group * w.taps()), out[2], out[3]};
    if (ctx.rank(4) != 4) return ctx.invalid("mask must have rank 4, has " + ctx.str(ctx.shape(4)));
    for (size_t d = 0; d < 4; ++d) {
      RP_TRY(ctx.unify(ctx.shape(4)[d], mask[d], "dims of mask and offset").status());
    }
  }
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

/// Where each tap of each window samples along one axis (0: rows), in pixels:
/// [N * offset_group, taps, OH, OW].
V deform_positions(OpBuilder& c, const DeformWindow& w, V offsets, size_t axis) {
  const DType t = c.dtype(offsets);
  const Shape all = c.shape(offsets);  // [N * offset_group, taps, 2, OH, OW]
  const V offset = c.reshape(c.slice_axis(offsets, 2, Expr(static_cast<int64_t>(axis)), 1),
                             {all[0], all[1], all[3], all[4]});
  std::vector<double> first;
  for (int64_t i = 0; i < w.taps(); ++i) {
    const int64_t at = axis == 0 ? i / w.kernel[1] : i % w.kernel[1];
    first.push_back(static_cast<double>(at * w.dilations[axis] - w.pads[axis]));
  }
  const V taps = c.constant(float_tensor(t, {1, w.taps(), 1, 1}, first));
  const V step = c.mul(c.cast(c.positions(all[3 + axis]), t), static_cast<double>(w.strides[axis]));
  const V window = c.along_axis(step, static_cast<int64_t>(2 + axis), 4);
  return c.add(c.add(window, taps), offset);
}

/// A sample for each tap of each window, then a matrix multiplication with the weights, as a
/// convolution whose windows were copied to columns.
Result<bool> deform_conv(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const DeformWindow w, deform_window(ctx));
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  const DType inner = accumulate_dtype(t);
  const Shape x = c.shape(c.in(0));
  const Shape out = c.shape(rw.node().outputs[0]);
  const Expr images = x[0] * Expr(w.offset_group);
  const Expr channels = Expr::floordiv(x[1], Expr(w.offset_group));
  const Expr taps(w.taps());
  const V offsets = c.reshape(c.cast(c.in(2), inner), {images, taps, Expr(2), out[2], out[3]});
  const Shape grid{images, taps * out[2], out[3], Expr(1)};
  const V columns = c.reshape(deform_positions(c, w, offsets, 1), grid);
  const V rows = c.reshape(deform_positions(c, w, offsets, 0), grid);
  AttrMap a;
  a.set("align_corners", int64_t{0});
  a.set("mode", "linear");
  a.set("padding_mode", "zeros");
  a.set("pixels", int64_t{1});
  const V image = c.reshape(c.cast(c.in(0), inner), {images, channels, x[2], x[3]});
  V samples = c.op("GridSample", {image, c.concat({columns, rows}, 3)}, std::move(a));
  const bool masked = c.has(4);
  if (masked) {
    samples = c.reshape(samples, {images, channels, taps, out[2], out[3]});
    const V mask = c.reshape(c.cast(c.in(4), inner), {images, Expr(1), taps, out[2], out[3]});
    samples = c.mul(samples, mask);
  }
  const Expr group(w.group);
  const Expr length = c.shape(c.in(1))[1] * taps;
  const Expr per_group = Expr::floordiv(out[1], group);
  const V weight = c.reshape(c.cast(c.in(1), inner), {group, per_group, length});
  V y = c.op("MatMul", {weight, c.reshape(samples, {x[0], group, length, out[2] * out[3]})});
  y = c.reshape(y, out);
  if (c.has(3)) y = c.add(y, c.along_axis(c.cast(c.in(3), inner), 1, 4));
  c.replace(0, c.cast(y, t));
  return c.finish();
}

constexpr AttrDecl kAffineGridAttrs[] = {int_attr("align_corners", 0)};
constexpr AttrDecl kDeformConvAttrs[] = {
    optional_attr("dilations", AttrType::Ints),    int_attr("group", 1),
    optional_attr("kernel_shape", AttrType::Ints), int_attr("offset_group", 1),
    optional_attr("pads", AttrType::Ints),         optional_attr("strides", AttrType::Ints)};

}  // namespace

std::span<const OpDef> sampling_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "AffineGrid",
       .infer = infer_affine_grid,
       .decompose = affine_grid,
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = kAffineGridAttrs},
      {.name = "DeformConv",
       .infer = infer_deform_conv,
       .decompose = deform_conv,
       .min_inputs = 3,
       .max_inputs = 5,
       .attributes = kDeformConvAttrs},
  };
  return kOps;
}

}  // namespace reprise::ops
