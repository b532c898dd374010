// Operators that run on the host: their rows have inference only. Sizes that depend on data become
// fresh symbols. The host also runs control flow, whose outputs the importer gives their types.
#include "codegen/ops/families.h"
#include "codegen/ops/shape_arith.h"
#include "codegen/ops/support.h"

namespace reprise::ops {

namespace {

Status infer_nonzero(InferContext& ctx) {
  ctx.set_output(0, DType::I64, {Expr(ctx.rank(0)), ctx.fresh_symbol(0, 1)});
  return {};
}

Status infer_unique(InferContext& ctx) {
  if (ctx.attrs().has("axis")) {
    RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis"), ctx.rank(0)));
    Shape out = ctx.shape(0);
    const Expr unique = ctx.fresh_symbol(0, static_cast<size_t>(axis));
    const Expr all = out[static_cast<size_t>(axis)];
    out[static_cast<size_t>(axis)] = unique;
    ctx.set_output(0, ctx.dtype(0), std::move(out));
    ctx.set_output(1, DType::I64, {unique});
    ctx.set_output(2, DType::I64, {all});
    ctx.set_output(3, DType::I64, {unique});
    return {};
  }
  const Expr count = ctx.fresh_symbol(0, 0);
  ctx.set_output(0, ctx.dtype(0), {count});
  ctx.set_output(1, DType::I64, {count});
  ctx.set_output(2, DType::I64, {element_count(ctx.shape(0))});
  ctx.set_output(3, DType::I64, {count});
  return {};
}

Status infer_compress(InferContext& ctx) {
  if (!ctx.attrs().has("axis")) {
    ctx.set_output(0, ctx.dtype(0), {ctx.fresh_symbol(0, 0)});
    return {};
  }
  RP_ASSIGN(const int64_t axis, ctx.axis(ctx.attrs().get_int("axis"), ctx.rank(0)));
  Shape out = ctx.shape(0);
  out[static_cast<size_t>(axis)] = ctx.fresh_symbol(0, static_cast<size_t>(axis));
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

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

Status infer_max_unpool(InferContext& ctx) {
  RP_TRY(require_rank(ctx, 0, 3));
  const auto kernel = ctx.attrs().get_ints("kernel_shape");
  const size_t n = ctx.shape(0).size() - 2;
  const auto strides = ctx.attrs().get_or("strides", std::vector<int64_t>(n, 1));
  const auto pads = ctx.attrs().get_or("pads", std::vector<int64_t>(2 * n, 0));
  if (kernel.size() != n || strides.size() != n || pads.size() != 2 * n) {
    return ctx.invalid(
        "kernel_shape, strides and pads do not have the rank of the spatial dims of " +
        ctx.str(ctx.shape(0)));
  }
  Shape out = ctx.shape(0);
  const auto wanted = ctx.elements(2);
  if (ctx.has_input(2) && !wanted) {
    out = ctx.fresh_shape(0, out.size());
  } else if (wanted) {
    if (wanted->size() != out.size())
      return ctx.invalid("output_shape has " + std::to_string(wanted->size()) +
                         " entries, expected " + std::to_string(out.size()));
    out = *wanted;
  } else {
    for (size_t d = 0; d < n; ++d) {
      out[2 + d] =
          (out[2 + d] - 1) * Expr(strides[d]) + Expr(kernel[d]) - Expr(pads[d]) - Expr(pads[n + d]);
    }
  }
  ctx.set_output(0, ctx.dtype(0), std::move(out));
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
constexpr AttrDecl kUniqueAttrs[] = {optional_attr("axis", AttrType::Int), int_attr("sorted", 1)};
constexpr AttrDecl kCompressAttrs[] = {optional_attr("axis", AttrType::Int)};
constexpr AttrDecl kImageDecoderAttrs[] = {string_attr("pixel_format", "RGB")};
constexpr AttrDecl kMaxUnpoolAttrs[] = {required_attr("kernel_shape", AttrType::Ints),
                                        optional_attr("pads", AttrType::Ints),
                                        optional_attr("strides", AttrType::Ints)};

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
      {.name = "NonZero", .infer = infer_nonzero},
      {.name = "Unique", .infer = infer_unique, .max_outputs = 4, .attributes = kUniqueAttrs},
      {.name = "Compress",
       .infer = infer_compress,
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = kCompressAttrs},
      {.name = "ImageDecoder",
       .infer = infer_image_decoder,
       .min_opset = 20,
       .attributes = kImageDecoderAttrs},
      {.name = "MaxUnpool",
       .infer = infer_max_unpool,
       .min_inputs = 2,
       .max_inputs = 3,
       .attributes = kMaxUnpoolAttrs},
      control_flow("If"),
      control_flow("Loop"),
      control_flow("Scan"),
  };
  return kOps;
}

}  // namespace reprise::ops
