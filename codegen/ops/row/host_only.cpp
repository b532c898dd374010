// Operators that run on the host: their rows have inference only. Sizes that depend on data become
// fresh symbols. The host also runs control flow, whose outputs the importer gives their types.
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

Status infer_image_decoder(InferContext& ctx) {
  if (ctx.dtype(0) != DType::U8)
    return ctx.invalid("the file must be uint8, not " + std::string(name_of(ctx.dtype(0))));
  if (ctx.rank(0) != 1)
    return ctx.invalid("the file must have one axis, not the shape " + ctx.str(ctx.shape(0)));
  const std::string format = ctx.attrs().get_string("pixel_format");
  if (format != "RGB" && format != "BGR" && format != "Grayscale") {
    return ctx.invalid("attribute 'pixel_format' is '" + format +
                       "'; expected RGB, BGR or Grayscale");
  }
  const Expr height = ctx.fresh_symbol(0, 0), width = ctx.fresh_symbol(0, 1);
  ctx.set_output(0, DType::U8, {height, width, Expr(format == "Grayscale" ? 1 : 3)});
  return {};
}

Status infer_control_flow(InferContext& ctx) {
  // The importer gives the outputs the types of the bodies' outputs.
  for (const graph::ValueId v : ctx.node().outputs) {
    if (v != graph::kNone && !ctx.graph().value(v).has_shape)
      return ctx.invalid("the types of its outputs are unknown");
  }
  return {};
}

constexpr AttrDecl kControlFlowAttrs[] = {optional_attr("body", AttrType::Body),
                                          optional_attr("else_branch", AttrType::Body),
                                          optional_attr("num_scan_inputs", AttrType::Int),
                                          optional_attr("scan_input_axes", AttrType::Ints),
                                          optional_attr("scan_input_directions", AttrType::Ints),
                                          optional_attr("scan_output_axes", AttrType::Ints),
                                          optional_attr("scan_output_directions", AttrType::Ints),
                                          optional_attr("then_branch", AttrType::Body)};
constexpr AttrDecl kInvalidBranchAttrs[] = {required_attr("message", AttrType::String)};
constexpr AttrDecl kImageDecoderAttrs[] = {string_attr("pixel_format", "RGB")};
constexpr OpDef control_flow(std::string_view name) {
  return {.name = name,
          .infer = infer_control_flow,
          .min_inputs = 0,
          .max_inputs = kVariadic,
          .list_may_omit = true,
          .max_outputs = kVariadic,
          .attributes = kControlFlowAttrs,
          .low_bit = true,
          .containers = true};
}

}  // namespace

std::span<const OpDef> host_only_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "ImageDecoder",
       .infer = infer_image_decoder,
       .min_opset = 20,
       .attributes = kImageDecoderAttrs},
      // The importer makes it the whole branch of an If that is invalid. Its only effect is the
      // error, so it is never computed in advance.
      {.name = "InvalidBranch",
       .infer = infer_control_flow,
       .min_inputs = 0,
       .max_inputs = 0,
       .max_outputs = kVariadic,
       .attributes = kInvalidBranchAttrs,
       .low_bit = true,
       .random = true,
       .containers = true},
      control_flow("If"),
      control_flow("Loop"),
      control_flow("Scan"),
  };
  return kOps;
}

}  // namespace reprise::ops
