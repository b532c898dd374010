// Operators that enlarge tensors with a border (Pad, CenterCropPad) or by repetition (Tile).
#include "codegen/ops/row/element.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

namespace {

using V = OpBuilder::V;

// --- Pad -----------------------------------------------------------------------------------------

/// The begins and then the ends of all axes. Nothing if they depend on data.
Result<std::optional<std::vector<Expr>>> pad_form(const InferContext& ctx) {
  const auto rank = static_cast<size_t>(ctx.rank(0));
  std::optional<std::vector<Expr>> pads;
  if (const auto* e = ctx.attrs().get<std::vector<Expr>>("pads")) {
    pads = *e;
  } else if (const auto* v = ctx.attrs().get<std::vector<int64_t>>("pads")) {
    pads = exprs_of(*v);
  } else if (ctx.has_input(1)) {
    pads = ctx.elements(1);
  } else {
    return ctx.invalid("neither the attribute nor the input pads is given");
  }
  if (!pads) return pads;
  std::vector<int64_t> axes = iota(0, ctx.rank(0));
  if (ctx.has_input(3)) {
    const auto given = ctx.constant_ints(3);
    if (!given) return std::optional<std::vector<Expr>>{};
    RP_ASSIGN(axes, ctx.axes(*given, ctx.rank(0)));
  }
  if (pads->size() != 2 * axes.size()) {
    return ctx.invalid("has " + std::to_string(pads->size()) + " pads for " +
                       std::to_string(axes.size()) + " axes");
  }
  std::vector<Expr> all(2 * rank, Expr(0));
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto a = static_cast<size_t>(axes[i]);
    all[a] = (*pads)[i];
    all[rank + a] = (*pads)[axes.size() + i];
  }
  return std::optional(std::move(all));
}

Status infer_pad(InferContext& ctx) {
  const std::string mode = ctx.attrs().get_string("mode");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap") {
    return ctx.error(Code::Unsupported,
                     "mode = '" + mode + "'; known: constant, reflect, edge, wrap");
  }
  RP_ASSIGN(const auto pads, pad_form(ctx));
  Shape out = ctx.shape(0);
  for (size_t d = 0; d < out.size(); ++d) {
    out[d] = pads ? out[d] + (*pads)[d] + (*pads)[out.size() + d] : ctx.fresh_symbol(0, d);
  }
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

/// Crops the input by its negative pads and sets these to 0. The modes that repeat data repeat what
/// is left.
V cropped(OpBuilder& c, std::vector<Expr>& pads) {
  const std::span<const Symbol> table = c.rewriter().graph().symbols;
  std::vector<Expr> starts;
  Shape sizes = c.shape(c.in(0));
  const size_t rank = sizes.size();
  for (size_t d = 0; d < rank; ++d) {
    starts.push_back(max_of(Expr(0) - pads[d], 0, table));
    sizes[d] = sizes[d] - starts[d] - max_of(Expr(0) - pads[rank + d], 0, table);
  }
  for (Expr& p : pads) p = max_of(p, 0, table);
  if (sizes == c.shape(c.in(0))) return c.in(0);
  return c.slice(c.in(0), starts, std::vector<Expr>(rank, Expr(1)), sizes);
}

Result<bool> pad(Rewriter& rw) {
  if (Attributes(rw.node()).get<std::vector<Expr>>("pads") != nullptr) return mark_core(rw);
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const auto pads, pad_form(ctx));
  if (!pads) return false;
  OpBuilder c(rw);
  const std::string mode = c.attrs().get_string("mode");
  std::vector<Expr> around = *pads;
  std::vector<graph::ValueId> inputs{mode == "constant" ? c.in(0) : cropped(c, around)};
  if (mode == "constant" && c.has(2)) {
    inputs.push_back(c.reshape(c.in(2), {}));
  } else if (const float* value = c.attrs().get<float>("value"); mode == "constant" && value) {
    inputs.push_back(c.scalar(c.dtype(c.in(0)), *value));
  }
  AttrMap a;
  a.set("mode", mode);
  a.set("pads", std::move(around));
  c.replace(0, c.op("Pad", std::move(inputs), std::move(a)));
  return c.finish();
}

/// The position that a padded position reads, for modes that repeat data. Positions may be
/// negative, which index expressions cannot divide, so this is run-time arithmetic.
Expr folded_position(ElementContext& ctx, const std::string& mode, const Expr& at,
                     const Expr& dim) {
  kernel::Builder& b = ctx.builder();
  if (mode == "edge") return Expr::max(Expr::min(at, dim - 1), 0);
  const bool wrap = mode == "wrap";
  // Reflection repeats every 2 * (dim - 1) positions.
  const Expr period = Expr::max(wrap ? dim : Expr(2) * (dim - 1), 1);
  const kernel::Val p = ctx.value(period);
  kernel::Val m = b.rem(ctx.value(at), p);
  m = b.select(b.lt(m, b.i32(0)), b.add(m, p), m);
  if (!wrap) m = b.min(m, b.sub(p, m));
  return ctx.opaque(dim.is_const(1) ? b.i32(0) : m, dim);
}

/// The axes with pads.
std::vector<size_t> padded_axes(const std::vector<Expr>& pads) {
  std::vector<size_t> axes;
  const size_t rank = pads.size() / 2;
  for (size_t d = 0; d < rank; ++d) {
    if (!pads[d].is_const(0) || !pads[rank + d].is_const(0)) axes.push_back(d);
  }
  return axes;
}

Status pad_element(ElementContext& ctx) {
  kernel::Builder& b = ctx.builder();
  const auto pads = Attributes(ctx.node()).get_exprs("pads");
  const std::string mode = Attributes(ctx.node()).get_string("mode");
  const std::span<const Symbol> table = ctx.graph().symbols;
  const Shape& in = ctx.input_shape(0);
  Index index = ctx.index();
  kernel::Val inside = b.boolean(true);
  bool guarded = false;
  for (size_t d : padded_axes(pads)) {
    const Expr at = index[d] - pads[d];
    index[d] = mode == "constant" ? at : folded_position(ctx, mode, at, in[d]);
    // The other modes always read an element, unless the dim is 0.
    if (mode != "constant" && bounds(in[d], table).lo > 0) continue;
    const kernel::Val v = mode == "constant" ? ctx.value(at) : b.i32(0);
    inside = b.logical_and(inside, b.in_range(v, ctx.value(in[d])));
    guarded = true;
  }
  if (!guarded) {
    RP_ASSIGN(const kernel::Val v, ctx.input(0, index));
    ctx.set(v);
    return {};
  }
  kernel::Val fill = b.constant(ctx.compute(ctx.graph().value(ctx.node().inputs[0]).dtype), 0);
  if (ctx.node().inputs.size() > 1) {
    RP_ASSIGN(fill, ctx.input(1, {}));
  }
  RP_ASSIGN(const kernel::Val v, ctx.guarded(inside, fill, [&] { return ctx.input(0, index); }));
  ctx.set(v);
  return {};
}

// --- CenterCropPad -------------------------------------------------------------------------------

/// The axes that get a new size. All axes if the node names none.
Result<std::vector<int64_t>> sized_axes(const InferContext& ctx) {
  if (!ctx.attrs().has("axes")) return iota(0, ctx.rank(0));
  return ctx.axes(ctx.attrs().get_ints("axes"), ctx.rank(0));
}

Status infer_center_crop_pad(InferContext& ctx) {
  RP_ASSIGN(const auto axes, sized_axes(ctx));
  const auto sizes = ctx.elements(1);
  if (sizes && sizes->size() != axes.size()) {
    return ctx.invalid("has " + std::to_string(sizes->size()) + " sizes for " +
                       std::to_string(axes.size()) + " axes");
  }
  Shape out = ctx.shape(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto a = static_cast<size_t>(axes[i]);
    out[a] = sizes ? (*sizes)[i] : ctx.fresh_symbol(0, a);
  }
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

/// Crops to the smaller of both sizes around the centre, then pads with zeros to the requested
/// size. If the difference is odd, one more element is cropped or added at the end.
Result<bool> center_crop_pad(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  if (!ctx.elements(1)) return false;
  OpBuilder c(rw);
  const std::span<const Symbol> table = rw.graph().symbols;
  const Shape in = c.shape(c.in(0));
  const Shape out = c.shape(rw.node().outputs[0]);
  const size_t rank = in.size();
  std::vector<Expr> starts;
  Shape sizes;
  std::vector<Expr> pads(2 * rank, Expr(0));
  for (size_t d = 0; d < rank; ++d) {
    sizes.push_back(min_of(in[d], out[d], table));
    starts.push_back(Expr::floordiv(in[d] - sizes[d], 2));
    pads[d] = Expr::floordiv(out[d] - sizes[d], 2);
    pads[rank + d] = out[d] - sizes[d] - pads[d];
  }
  const V middle = c.slice(c.in(0), starts, std::vector<Expr>(rank, Expr(1)), sizes);
  AttrMap a;
  a.set("mode", "constant");
  a.set("pads", std::move(pads));
  c.replace(0, c.reshape(c.op("Pad", {middle}, std::move(a)), out));
  return c.finish();
}

// --- Tile ----------------------------------------------------------------------------------------

Status infer_tile(InferContext& ctx) {
  const auto repeats = ctx.elements(1);
  Shape out = ctx.shape(0);
  if (repeats && repeats->size() != out.size()) {
    return ctx.invalid("has " + std::to_string(repeats->size()) + " repeats for shape " +
                       ctx.str(out));
  }
  for (size_t d = 0; d < out.size(); ++d) {
    out[d] = repeats ? out[d] * (*repeats)[d] : ctx.fresh_symbol(0, d);
  }
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

/// Contents for a vector.
void tile_contents(ContentsContext& ctx) {
  const auto e = ctx.elements(0);
  const Shape& out = ctx.output(0).shape;
  if (!e || out.size() != 1 || !out[0].is_const() || out[0].value() > kMaxElements) return;
  std::vector<Expr> all;
  while (static_cast<int64_t>(all.size()) < out[0].value()) {
    all.insert(all.end(), e->begin(), e->end());
  }
  ctx.set_elements(0, std::move(all));
}

/// Repeats [a, b] by [r, s]: [1, a, 1, b] -> [r, a, s, b] -> [r * a, s * b].
Result<bool> tile(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  const auto repeats = ctx.elements(1);
  if (!repeats) return false;
  OpBuilder c(rw);
  Shape split;
  Shape repeated;
  for (size_t d = 0; d < repeats->size(); ++d) {
    const Expr dim = ctx.shape(0)[d];
    if (!(*repeats)[d].is_const(1)) {
      split.emplace_back(1);
      repeated.push_back((*repeats)[d]);
    }
    split.push_back(dim);
    repeated.push_back(dim);
  }
  const auto v = c.expand(c.reshape(c.in(0), split), repeated);
  c.replace(0, c.reshape(v, c.shape(rw.node().outputs[0])));
  return c.finish();
}

constexpr AttrDecl kPadAttrs[] = {string_attr("mode", "constant", CoreForm::String),
                                  optional_attr("pads", AttrType::Ints, CoreForm::Pads),
                                  optional_attr("value", AttrType::Float)};
constexpr AttrDecl kCenterCropPadAttrs[] = {optional_attr("axes", AttrType::Ints)};

}  // namespace

std::span<const OpDef> pad_tile_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "Pad",
       .infer = infer_pad,
       .decompose = pad,
       .lowering = Lowering::Element,
       .element = pad_element,
       .min_opset = 2,
       .max_inputs = 4,
       .attributes = kPadAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .layout = LayoutRole::Axes,
       .moves = true,
       .low_bit = true},
      {.name = "CenterCropPad",
       .infer = infer_center_crop_pad,
       .decompose = center_crop_pad,
       .min_opset = 18,
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = kCenterCropPadAttrs,
       .low_bit = true},
      {.name = "Tile",
       .infer = infer_tile,
       .contents = tile_contents,
       .decompose = tile,
       .min_opset = 6,
       .min_inputs = 2,
       .max_inputs = 2,
       .low_bit = true},
  };
  return kOps;
}

}  // namespace reprise::ops
