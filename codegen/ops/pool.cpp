// Pools over windows (element definitions) and over everything (reductions).
#include <cmath>
#include <limits>

#include "codegen/ops/compose.h"
#include "codegen/ops/element.h"
#include "codegen/ops/families.h"
#include "codegen/ops/support.h"
#include "codegen/ops/window.h"

namespace reprise::ops {

namespace {

using kernel::Val;
using V = Compose::V;

// --- Windows -------------------------------------------------------------------------------------

Result<Window> pool_window(const InferContext& ctx) {
  if (!ctx.attrs().has("kernel_shape")) return ctx.invalid("attribute 'kernel_shape' is missing");
  return read_window(ctx, ctx.attrs().get_ints("kernel_shape"));
}

Status infer_pool(InferContext& ctx) {
  RP_TRY(require_rank(ctx, 0, 3));
  if (ctx.node().op != "MaxPool") RP_TRY(require_float(ctx, 0));
  RP_ASSIGN(const Window w, pool_window(ctx));
  for (size_t d = 0; d < w.rank(); ++d) {
    const auto too_large = [&](const Expr& pad) {
      return pad.is_const() && pad.value() >= w.extent(d);
    };
    if (too_large(w.begin[d]) || too_large(w.end[d])) {
      return ctx.invalid("a padding as large as the window leaves windows without any input");
    }
  }
  Shape out{ctx.shape(0)[0], ctx.shape(0)[1]};
  out.insert(out.end(), w.out.begin(), w.out.end());
  ctx.set_output(0, ctx.dtype(0), out);
  ctx.set_output(1, DType::I64, std::move(out));
  return {};
}

AttrMap pool_attrs(const Window& w, const AttrMap& given) {
  AttrMap a = window_attrs(w);
  a.set("kernel_shape", w.kernel);
  a.set("ceil_mode", given.get_int("ceil_mode", 0));
  return a;
}

Result<bool> max_pool(Rewriter& rw) {
  const graph::Node& n = rw.node();
  if (n.opset == 0) return false;
  // The indices have no device form.
  if (n.outputs.size() > 1 && n.outputs[1] != graph::kNone) return false;
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const Window w, pool_window(ctx));
  Compose c(rw);
  c.replace(0, c.op("MaxPool", {c.in(0)}, pool_attrs(w, c.attrs())));
  return c.finish();
}

Result<bool> average_pool(Rewriter& rw) {
  if (rw.node().opset == 0) return false;
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const Window w, pool_window(ctx));
  Compose c(rw);
  const DType t = c.dtype(c.in(0));
  AttrMap a = pool_attrs(w, c.attrs());
  a.set("count_include_pad", c.attrs().get_int("count_include_pad", 0));
  c.replace(0, c.cast(c.op("AveragePool", {c.cast(c.in(0), wide(t))}, std::move(a)), t));
  return c.finish();
}

/// (sum |x|^p)^(1/p): the sum is an average times the window's size.
Result<bool> lp_pool(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const Window w, pool_window(ctx));
  Compose c(rw);
  // In ceil mode the last windows are smaller than the kernel, so the average has other divisors.
  if (c.attrs().get_int("ceil_mode", 0) != 0) return false;
  const DType t = c.dtype(c.in(0));
  const double p = static_cast<double>(c.attrs().get_int("p", 2));
  const V x = c.op("Abs", {c.cast(c.in(0), wide(t))});
  AttrMap a = pool_attrs(w, c.attrs());
  a.set("count_include_pad", int64_t{1});
  double size = 1;
  for (int64_t k : w.kernel) size *= static_cast<double>(k);
  const auto power = [&](V v, double e) {
    return e == 1 ? v : e == 2 ? c.mul(v, v) : c.op("Pow", {v, c.scalar(c.dtype(v), e)});
  };
  const V sum = c.mul(c.op("AveragePool", {power(x, p)}, std::move(a)), size);
  const V root = p == 2 ? c.op("Sqrt", {sum}) : power(sum, 1 / p);
  c.replace(0, c.cast(root, t));
  return c.finish();
}

struct PoolAttrs {
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<Expr> pads;
};

PoolAttrs pool_attrs(const ElementContext& ctx) {
  const AttrMap& a = ctx.node().attrs;
  PoolAttrs p{a.get_ints("kernel_shape"), a.get_ints("strides"), a.get_ints("dilations"),
              a.get_exprs("pads")};
  if (p.pads.empty()) p.pads = exprs_of(a.get_ints("pads"));
  return p;
}

/// Calls body(position in the input, whether it is inside, whether it is inside the padded input)
/// for every tap of the window.
using TapBody = std::function<void(const Index&, Val, Val)>;
void for_each_tap(ElementContext& ctx, const PoolAttrs& p, Index& at, Val inside, Val padded,
                  const TapBody& body) {
  kernel::Builder& b = ctx.builder();
  const size_t d = at.size() - 2;
  if (d == p.kernel.size()) {
    body(at, inside, padded);
    return;
  }
  const Expr& in = ctx.input_shape(0)[2 + d];
  ctx.loop(Expr(p.kernel[d]), [&](const Expr& k) {
    const Expr position =
        ctx.index()[2 + d] * Expr(p.strides[d]) + k * Expr(p.dilations[d]) - p.pads[d];
    const Val v = ctx.value(position);
    const Val before_end = b.lt(v, ctx.value(in));
    const Val here = b.logical_and(inside, b.logical_and(b.ge(v, b.i32(0)), before_end));
    const Val end = ctx.value(in + p.pads[p.kernel.size() + d]);
    at.push_back(position);
    for_each_tap(ctx, p, at, here, b.logical_and(padded, b.lt(v, end)), body);
    at.pop_back();
  });
}

Status max_pool_element(ElementContext& ctx) {
  kernel::Builder& b = ctx.builder();
  const PoolAttrs p = pool_attrs(ctx);
  const DType dtype = ctx.graph().value(ctx.node().outputs[0]).dtype;
  const kernel::Type type = ctx.compute(dtype);
  double lowest = -std::numeric_limits<double>::infinity();
  if (!is_float(dtype)) {
    lowest = is_signed_int(dtype) ? -std::ldexp(1.0, static_cast<int>(size_of(dtype)) * 8 - 1) : 0;
  }
  const int acc = b.local("acc", type);
  b.local_store(acc, b.constant(type, lowest));
  Index at{ctx.index()[0], ctx.index()[1]};
  Status status;
  for_each_tap(ctx, p, at, b.boolean(true), b.boolean(true),
               [&](const Index& position, Val inside, Val) {
                 const Val old = b.local_load(acc);
                 auto v = ctx.guarded(inside, old, [&]() -> Result<Val> {
                   RP_ASSIGN(const Val x, ctx.input(0, position));
                   return b.max(old, x);
                 });
                 if (v.ok()) {
                   b.local_store(acc, *v);
                 } else {
                   status = v.status();
                 }
               });
  ctx.set(b.local_load(acc));
  return status;
}

/// The divisor counts the taps inside the input, or inside its padding when that is included: in
/// ceil mode the last window may leave the padding.
Status average_pool_element(ElementContext& ctx) {
  kernel::Builder& b = ctx.builder();
  const PoolAttrs p = pool_attrs(ctx);
  const bool include_pad = ctx.node().attrs.get_int("count_include_pad", 0) != 0;
  const kernel::Type type = ctx.compute(ctx.graph().value(ctx.node().outputs[0]).dtype);
  const int sum = b.local("sum", type);
  const int taps = b.local("taps", kernel::kI32);
  b.local_store(sum, b.constant(type, 0));
  b.local_store(taps, b.i32(0));
  Index at{ctx.index()[0], ctx.index()[1]};
  Status status;
  for_each_tap(ctx, p, at, b.boolean(true), b.boolean(true),
               [&](const Index& position, Val inside, Val padded) {
                 const Val old = b.local_load(sum);
                 auto v = ctx.guarded(inside, old, [&]() -> Result<Val> {
                   RP_ASSIGN(const Val x, ctx.input(0, position));
                   return b.add(old, x);
                 });
                 if (!v.ok()) {
                   status = v.status();
                   return;
                 }
                 b.local_store(sum, *v);
                 const Val counts = include_pad ? padded : inside;
                 b.local_store(taps,
                               b.add(b.local_load(taps), b.select(counts, b.i32(1), b.i32(0))));
               });
  ctx.set(b.div(b.local_load(sum), b.convert(b.local_load(taps), type.ty)));
  return status;
}

double pool_reads(const graph::Graph&, const graph::Node& n) {
  double reads = 1;
  for (int64_t k : n.attrs.get_ints("kernel_shape")) reads *= static_cast<double>(k);
  return reads;
}

// --- Everything ----------------------------------------------------------------------------------

Status infer_global_pool(InferContext& ctx) {
  RP_TRY(require_rank(ctx, 0, 2));
  RP_TRY(require_float(ctx, 0));
  Shape out = ctx.shape(0);
  for (size_t d = 2; d < out.size(); ++d) out[d] = 1;
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

std::vector<int64_t> spatial_axes(Compose& c) {
  return iota(2, static_cast<int64_t>(c.shape(c.in(0)).size()));
}

Result<bool> global_max_pool(Rewriter& rw) {
  Compose c(rw);
  c.replace(0, c.reduce("ReduceMax", c.in(0), spatial_axes(c)));
  return c.finish();
}

Result<bool> global_average_pool(Rewriter& rw) {
  Compose c(rw);
  const DType t = c.dtype(c.in(0));
  const auto axes = spatial_axes(c);
  const V x = c.cast(c.in(0), wide(t));
  c.replace(0, c.cast(axes.empty() ? x : c.mean(x, axes), t));
  return c.finish();
}

Result<bool> global_lp_pool(Rewriter& rw) {
  Compose c(rw);
  const DType t = c.dtype(c.in(0));
  const double p = static_cast<double>(c.attrs().get_int("p", 2));
  const V x = c.op("Abs", {c.cast(c.in(0), wide(t))});
  const auto power = [&](V v, double e) {
    return e == 1 ? v : e == 2 ? c.mul(v, v) : c.op("Pow", {v, c.scalar(c.dtype(v), e)});
  };
  const V sum = c.reduce("ReduceSum", power(x, p), spatial_axes(c));
  c.replace(0, c.cast(p == 2 ? c.op("Sqrt", {sum}) : power(sum, 1 / p), t));
  return c.finish();
}

constexpr OpDef global(std::string_view name, Result<bool> (*decompose)(Rewriter&),
                       std::string_view attributes = {}) {
  return {
      .name = name, .infer = infer_global_pool, .decompose = decompose, .attributes = attributes};
}

}  // namespace

std::span<const OpDef> pool_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "MaxPool",
       .infer = infer_pool,
       .decompose = max_pool,
       .lowering = Lowering::Element,
       .element = max_pool_element,
       .reads_per_element = pool_reads,
       .attributes = "auto_pad ceil_mode dilations kernel_shape pads storage_order strides",
       .max_outputs = 2},
      {.name = "AveragePool",
       .infer = infer_pool,
       .decompose = average_pool,
       .lowering = Lowering::Element,
       .element = average_pool_element,
       .min_opset = 7,
       .reads_per_element = pool_reads,
       .attributes = "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides"},
      {.name = "LpPool",
       .infer = infer_pool,
       .decompose = lp_pool,
       .min_opset = 2,
       .attributes = "auto_pad ceil_mode dilations kernel_shape p pads strides"},
      global("GlobalMaxPool", global_max_pool),
      global("GlobalAveragePool", global_average_pool),
      global("GlobalLpPool", global_lp_pool, "p"),
  };
  return kOps;
}

}  // namespace reprise::ops
