// Col2Im: the columns of a convolution's windows, added up to an image.
#include "codegen/ops/row/element.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"
#include "codegen/ops/row/window.h"

namespace reprise::ops {

namespace {

using kernel::Val;

/// The windows over an image. Pads are begins, then ends.
struct Blocks {
  std::vector<int64_t> kernel, strides, dilations, pads;

  size_t rank() const { return kernel.size(); }
  int64_t taps() const {
    int64_t n = 1;
    for (int64_t k : kernel) n *= k;
    return n;
  }
  /// How many windows fit along one axis of an image.
  Expr count(size_t d, const Expr& image) const {
    const Expr room =
        image + Expr(pads[d] + pads[rank() + d]) - Expr(dilations[d] * (kernel[d] - 1) + 1);
    return Expr::floordiv(room, Expr(strides[d])) + 1;
  }
};

/// Core form has all of them as attributes.
Blocks core_blocks(const graph::Node& n) {
  const Attributes attrs(n);
  return {attrs.get_ints("kernel_shape"), attrs.get_ints("strides"), attrs.get_ints("dilations"),
          attrs.get_ints("pads")};
}

/// In ONNX the kernel is input 2. Nothing if it depends on data.
Result<std::optional<Blocks>> blocks_of(const InferContext& ctx) {
  if (ctx.node_opset() == 0) return std::optional(core_blocks(ctx.node()));
  if (!ctx.has_input(1) || !ctx.has_input(2))
    return ctx.invalid("the inputs image_shape and block_shape are missing");
  const auto kernel = ctx.constant_ints(2);
  if (!kernel) return std::optional<Blocks>();
  Blocks w;
  w.kernel = *kernel;
  for (int64_t k : w.kernel) {
    if (k < 1 || k >= int64_t{1} << 20)
      return ctx.invalid("block_shape holds " + std::to_string(k) + ", must be in [1, 2^20)");
  }
  RP_ASSIGN(w.strides, spatial_ints(ctx, "strides", w.rank(), 1, 1));
  RP_ASSIGN(w.dilations, spatial_ints(ctx, "dilations", w.rank(), 1, 1));
  RP_ASSIGN(w.pads, spatial_ints(ctx, "pads", 2 * w.rank(), 0, 0));
  return std::optional(std::move(w));
}

/// The dims of the image, which core form has in the output's shape; symbols if they depend on
/// data.
Result<Shape> image_of(InferContext& ctx) {
  const graph::Value& out = ctx.graph().value(ctx.node().outputs[0]);
  if (ctx.node_opset() == 0 && out.has_shape) return Shape(out.shape.begin() + 2, out.shape.end());
  if (const auto given = ctx.elements(1)) return Shape(given->begin(), given->end());
  RP_ASSIGN(const int64_t rank, static_length(ctx, 1));
  Shape image;
  for (int64_t d = 0; d < rank; ++d)
    image.push_back(ctx.fresh_symbol(0, static_cast<size_t>(d + 2)));
  return image;
}

/// Columns [N, C * taps, windows] give an image [N, C, dims...].
Status infer_col2im(InferContext& ctx) {
  if (ctx.rank(0) != 3) {
    return ctx.invalid("input must be [N, channels * block, windows], has shape " +
                       ctx.str(ctx.shape(0)));
  }
  RP_ASSIGN(const auto w, blocks_of(ctx));
  const Shape& in = ctx.shape(0);
  RP_ASSIGN(const Shape image, image_of(ctx));
  if (!w) {
    Shape out{in[0], ctx.fresh_symbol(0, 1)};
    out.insert(out.end(), image.begin(), image.end());
    ctx.set_output(0, ctx.dtype(0), std::move(out));
    return {};
  }
  if (image.size() != w->rank()) {
    return ctx.invalid("image_shape has " + std::to_string(image.size()) +
                       " entries, block_shape has " + std::to_string(w->rank()));
  }
  if (in[1].is_const() && in[1].value() % w->taps() != 0) {
    return ctx.invalid("the " + std::to_string(in[1].value()) + " channels of " + ctx.str(in) +
                       " are not a multiple of the block's " + std::to_string(w->taps()) +
                       " elements");
  }
  Expr windows = 1;
  for (size_t d = 0; d < w->rank(); ++d) windows *= w->count(d, image[d]);
  RP_TRY(ctx.unify(in[2], windows, "windows of the input and of the image").status());
  Shape out{in[0], Expr::floordiv(in[1], Expr(w->taps()))};
  out.insert(out.end(), image.begin(), image.end());
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

Result<bool> col2im(Rewriter& rw) {
  if (rw.node().opset == 0) return false;
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const auto w, blocks_of(ctx));
  if (!w || !ctx.elements(1) || rw.input(0).dtype == DType::String) return false;
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  AttrMap a;
  a.set("dilations", w->dilations);
  a.set("kernel_shape", w->kernel);
  a.set("pads", w->pads);
  a.set("strides", w->strides);
  const Shape image = c.shape(rw.node().outputs[0]);
  const auto columns = c.cast(c.in(0), accumulate_dtype(t));
  RP_ASSIGN(const auto sum,
            rw.emit_shaped("Col2Im", {columns}, std::move(a), c.dtype(columns), image));
  c.replace(0, c.cast(sum, t));
  return c.finish();
}

/// The window whose tap at `offset` lies on a pixel, and whether there is one.
struct Hit {
  std::vector<Expr> window;
  Val exists;
};

Hit window_at(ElementContext& ctx, const Blocks& w, const std::vector<Expr>& offset) {
  kernel::Builder& b = ctx.builder();
  Hit hit{{}, b.boolean(true)};
  for (size_t d = 0; d < w.rank(); ++d) {
    const Expr count = w.count(d, ctx.output_shape()[d + 2]);
    const Expr from_start = ctx.index()[d + 2] + Expr(w.pads[d]) - offset[d] * Expr(w.dilations[d]);
    const Val distance = ctx.value(ctx.simplify(from_start));
    Val window = distance;
    if (w.strides[d] != 1) {
      const Val stride = b.i32(w.strides[d]);
      window = b.div(distance, stride);
      hit.exists = b.logical_and(hit.exists, b.eq(b.mul(window, stride), distance));
      // The quotient is rounded towards zero; a pixel before the first window has none.
      hit.exists = b.logical_and(hit.exists, b.ge(distance, b.i32(0)));
    }
    hit.exists = b.logical_and(hit.exists, b.in_range(window, ctx.value(count)));
    hit.window.push_back(ctx.opaque(window, count));
  }
  return hit;
}

/// Each pixel adds the taps that lie on it.
Status col2im_element(ElementContext& ctx) {
  kernel::Builder& b = ctx.builder();
  const Blocks w = core_blocks(ctx.node());
  Shape counts;
  for (size_t d = 0; d < w.rank(); ++d) counts.push_back(w.count(d, ctx.output_shape()[d + 2]));
  const kernel::Type type = ctx.compute(ctx.graph().value(ctx.node().outputs[0]).dtype);
  const int sum = b.local("sum", type);
  b.local_store(sum, b.constant(type, 0));
  Status status;
  ctx.loop(Expr(w.taps()), [&](const Expr& tap) {
    const Hit hit = window_at(ctx, w, delinearize(tap, shape_of(w.kernel)));
    const auto v = ctx.guarded(hit.exists, b.constant(type, 0), [&] {
      const Expr channel = ctx.index()[1] * Expr(w.taps()) + tap;
      return ctx.input(0, {ctx.index()[0], channel, linearize(hit.window, counts)});
    });
    if (v.ok()) b.local_store(sum, b.add(b.local_load(sum), *v));
    if (!v.ok()) status = v.status();
  });
  ctx.set(b.local_load(sum));
  return status;
}

constexpr AttrDecl kCol2ImAttrs[] = {
    optional_attr("dilations", AttrType::Ints),
    {.name = "kernel_shape", .type = AttrType::Ints, .internal = true},
    optional_attr("pads", AttrType::Ints),
    optional_attr("strides", AttrType::Ints)};

}  // namespace

std::span<const OpDef> col2im_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "Col2Im",
       .infer = infer_col2im,
       .decompose = col2im,
       .lowering = Lowering::Element,
       .element = col2im_element,
       .max_inputs = 3,
       .attributes = kCol2ImAttrs,
       .sensitivity = kernel::Sensitivity::Sum,
       .layout = LayoutRole::Fixed},
  };
  return kOps;
}

}  // namespace reprise::ops
