// Tensors made larger around (Pad) or by repetition (Tile).
#include "codegen/ops/compose.h"
#include "codegen/ops/element.h"
#include "codegen/ops/families.h"
#include "codegen/ops/shape_arith.h"
#include "codegen/ops/support.h"

namespace reprise::ops {

namespace {

// --- Pad -----------------------------------------------------------------------------------------

/// Begins then ends of all axes; nothing when they depend on data.
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
    return ctx.invalid("pads are missing");
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
  const std::string mode = ctx.attrs().get_string("mode", "constant");
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

Result<bool> pad(Rewriter& rw) {
  if (rw.node().attrs.get<std::vector<Expr>>("pads") != nullptr) return mark_core(rw);
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const auto pads, pad_form(ctx));
  if (!pads) return false;
  Compose c(rw);
  const std::string mode = c.attrs().get_string("mode", "constant");
  std::vector<graph::ValueId> inputs{c.in(0)};
  if (mode == "constant" && c.has(2)) {
    inputs.push_back(c.reshape(c.in(2), {}));
  } else if (const float* value = c.attrs().get<float>("value"); mode == "constant" && value) {
    inputs.push_back(c.scalar(c.dtype(c.in(0)), *value));
  }
  AttrMap a;
  a.set("mode", mode);
  a.set("pads", *pads);
  c.replace(0, c.op("Pad", std::move(inputs), std::move(a)));
  return c.finish();
}

/// Where a padded position reads, for the modes that repeat the data. Positions may be negative,
/// which index expressions do not divide by; so this is run-time arithmetic.
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

/// Axes that some position of the output leaves.
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
  const auto pads = ctx.node().attrs.get_exprs("pads");
  const std::string mode = ctx.node().attrs.get_string("mode", "constant");
  const std::span<const Symbol> table = ctx.graph().symbols;
  const Shape& in = ctx.input_shape(0);
  Index index = ctx.index();
  kernel::Val inside = b.boolean(true);
  bool guarded = false;
  for (size_t d : padded_axes(pads)) {
    const Expr at = index[d] - pads[d];
    index[d] = mode == "constant" ? at : folded_position(ctx, mode, at, in[d]);
    // The other modes read nothing only from an empty dim.
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
  const auto e = ctx.elements(0);
  const bool vector = out.size() == 1 && repeats;
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  if (!e || !vector || !(*repeats)[0].is_const()) return {};
  std::vector<Expr> all;
  for (int64_t i = 0; i < (*repeats)[0].value(); ++i) {
    if (static_cast<int64_t>(all.size()) > kMaxElements) return {};
    all.insert(all.end(), e->begin(), e->end());
  }
  ctx.set_elements(0, std::move(all));
  return {};
}

/// [a, b] repeated [r, s] times: [1, a, 1, b] -> [r, a, s, b] -> [r * a, s * b].
Result<bool> tile(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  const auto repeats = ctx.elements(1);
  if (!repeats) return false;
  Compose c(rw);
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

}  // namespace

std::span<const OpDef> pad_tile_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "Pad",
       .infer = infer_pad,
       .decompose = pad,
       .lowering = Lowering::Element,
       .element = pad_element,
       .min_opset = 2,
       .attributes = "mode pads value",
       .max_inputs = 4},
      {.name = "Tile",
       .infer = infer_tile,
       .decompose = tile,
       .min_opset = 6,
       .min_inputs = 2,
       .max_inputs = 2},
  };
  return kOps;
}

}  // namespace reprise::ops
