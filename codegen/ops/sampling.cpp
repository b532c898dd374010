// GridSample and RoiAlign. They run on the host: inference only.
#include "codegen/ops/families.h"
#include "codegen/ops/support.h"

namespace reprise::ops {

namespace {

/// X [N, C, d...] and the positions grid [N, out..., rank of d].
Status infer_grid_sample(InferContext& ctx) {
  RP_TRY(require_rank(ctx, 0, 3));
  if (ctx.rank(1) != ctx.rank(0)) {
    return ctx.invalid("X " + ctx.str(ctx.shape(0)) + " and grid " + ctx.str(ctx.shape(1)) +
                       " differ in rank");
  }
  RP_TRY(require_float(ctx, 1));
  RP_ASSIGN(const Expr batch, ctx.unify(ctx.shape(0)[0], ctx.shape(1)[0], "batches"));
  RP_TRY(ctx.unify(ctx.shape(1).back(), ctx.rank(0) - 2, "coordinates of the grid").status());
  Shape out{batch, ctx.shape(0)[1]};
  out.insert(out.end(), ctx.shape(1).begin() + 1, ctx.shape(1).end() - 1);
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

/// X [N, C, H, W], regions [R, 4] and the index of each region's image [R].
Status infer_roi_align(InferContext& ctx) {
  RP_TRY(require_float(ctx, 0));
  RP_TRY(require_int(ctx, 2));
  if (ctx.rank(0) != 4 || ctx.rank(1) != 2 || ctx.rank(2) != 1) {
    return ctx.invalid("X " + ctx.str(ctx.shape(0)) + ", rois " + ctx.str(ctx.shape(1)) +
                       " and batch_indices " + ctx.str(ctx.shape(2)) +
                       " must have ranks 4, 2 and 1");
  }
  RP_ASSIGN(const Expr regions,
            ctx.unify(ctx.shape(1)[0], ctx.shape(2)[0], "regions and batch_indices"));
  RP_TRY(ctx.unify(ctx.shape(1)[1], 4, "coordinates of a region").status());
  const int64_t height = ctx.attrs().get_int("output_height");
  const int64_t width = ctx.attrs().get_int("output_width");
  if (height < 1 || width < 1) {
    return ctx.invalid("output_height is " + std::to_string(height) + " and output_width is " +
                       std::to_string(width) + ", both must be positive");
  }
  ctx.set_output(0, ctx.dtype(0), {regions, ctx.shape(0)[1], height, width});
  return {};
}

constexpr AttrDecl kGridSampleAttrs[] = {int_attr("align_corners", 0),
                                         string_attr("mode", "linear"),
                                         string_attr("padding_mode", "zeros")};
constexpr AttrDecl kRoiAlignAttrs[] = {string_attr("coordinate_transformation_mode", "half_pixel"),
                                       string_attr("mode", "avg"),
                                       int_attr("output_height", 1),
                                       int_attr("output_width", 1),
                                       int_attr("sampling_ratio", 0),
                                       float_attr("spatial_scale", 1.0F)};

}  // namespace

std::span<const OpDef> sampling_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "GridSample",
       .infer = infer_grid_sample,
       .min_opset = 16,
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = kGridSampleAttrs},
      {.name = "RoiAlign",
       .infer = infer_roi_align,
       .min_opset = 10,
       .min_inputs = 3,
       .max_inputs = 3,
       .attributes = kRoiAlignAttrs},
  };
  return kOps;
}

}  // namespace reprise::ops
