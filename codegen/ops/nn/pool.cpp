// Pools over windows, as elements, and global pools, as reductions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "codegen/ops/row/element.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"
#include "codegen/ops/row/window.h"

namespace reprise::ops {

namespace {

using kernel::Val;
using V = OpBuilder::V;

// --- Windows -------------------------------------------------------------------------------------

Result<Window> pool_window(const InferContext& ctx) {
  return read_window(ctx, ctx.attrs().get_ints("kernel_shape"), WindowUse::Pool);
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
      return ctx.invalid("a window without any input: pads must be smaller than the window");
    }
  }
  const DataAxes axes = data_axes(ctx.node(), ctx.shape(0).size());
  Shape out = axes.arrange(ctx.shape(0)[0], ctx.shape(0)[axes.channel], w.out);
  ctx.set_output(0, ctx.dtype(0), out);
  ctx.set_output(1, DType::I64, std::move(out));
  return {};
}

AttrMap pool_attrs(const Window& w, const Attributes& given) {
  AttrMap a = window_attrs(w);
  a.set("kernel_shape", w.kernel);
  a.set("ceil_mode", given.get_int("ceil_mode"));
  return a;
}

Result<bool> max_pool(Rewriter& rw) {
  const graph::Node& n = rw.node();
  if (n.opset == 0) return false;
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const Window w, pool_window(ctx));
  OpBuilder c(rw);
  AttrMap a = pool_attrs(w, c.attrs());
  if (!c.has_output(1)) {
    c.replace(0, c.op("MaxPool", {c.in(0)}, std::move(a)));
    return c.finish();
  }
  a.set("storage_order", c.attrs().get_int("storage_order"));
  RP_ASSIGN(const std::vector<V> both, rw.emit_all("MaxPool", {c.in(0)}, std::move(a), 2));
  for (size_t i = 0; i < both.size(); ++i) c.replace(i, both[i]);
  return c.finish();
}

Result<bool> average_pool(Rewriter& rw) {
  if (rw.node().opset == 0) return false;
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const Window w, pool_window(ctx));
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  AttrMap a = pool_attrs(w, c.attrs());
  a.set("count_include_pad", c.attrs().get_int("count_include_pad"));
  c.replace(0,
            c.cast(c.op("AveragePool", {c.cast(c.in(0), accumulate_dtype(t))}, std::move(a)), t));
  return c.finish();
}

/// (sum |x|^p)^(1/p). The sum is the average times the size of the window.
Result<bool> lp_pool(Rewriter& rw) {
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const Window w, pool_window(ctx));
  OpBuilder c(rw);
  // In ceil mode the last windows are smaller than the kernel, so averages have other divisors.
  if (c.attrs().get_int("ceil_mode") != 0)
    return rw.keep("in ceil_mode, the last windows are smaller than others");
  const DType t = c.dtype(c.in(0));
  const double p = static_cast<double>(c.attrs().get_int("p"));
  const V x = c.op("Abs", {c.cast(c.in(0), accumulate_dtype(t))});
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
  DataAxes axes;
};

PoolAttrs pool_attrs(const ElementContext& ctx) {
  const Attributes a(ctx.node());
  PoolAttrs p{a.get_ints("kernel_shape"), a.get_ints("strides"), a.get_ints("dilations"),
              a.get_exprs("pads"), data_axes(ctx.node(), ctx.index().size())};
  if (p.pads.empty()) p.pads = exprs_of(a.get_ints("pads"));
  return p;
}

/// An element of the input that a window covers.
struct PoolTap {
  Index at;    // spatial, and clamped to the input unless that is empty
  Val inside;  // whether it is inside the input; null: always
  Val padded;  // whether it is inside the padded input; null: always
};

Val both(kernel::Builder& b, Val x, Val y) {
  return x && y ? b.logical_and(x, y) : x ? x : y;
}

/// Whether 0 <= position < end. Null if the ranges of its symbols prove it.
Val within(ElementContext& ctx, const Expr& position, const Expr& end) {
  const Expr at = ctx.simplify(position);
  // Simplify the bounds separately: clamping position 0 to an empty dim gives 0 again.
  if (ctx.simplify(Expr::min(at, end - 1)) == at && ctx.simplify(Expr::max(at, 0)) == at) return {};
  return ctx.builder().in_range(ctx.value(at), ctx.value(end));
}

/// Extends a tap by the next axis, at position k of the window.
PoolTap step(ElementContext& ctx, const PoolAttrs& p, const PoolTap& tap, const Expr& k) {
  kernel::Builder& b = ctx.builder();
  const size_t d = tap.at.size();
  const Expr& in = ctx.input_shape(0)[p.axes.spatial + d];
  const Expr position =
      ctx.index()[p.axes.spatial + d] * Expr(p.strides[d]) + k * Expr(p.dilations[d]) - p.pads[d];
  PoolTap next = tap;
  next.at.push_back(ctx.simplify(Expr::max(Expr::min(position, in - 1), 0)));
  next.inside = both(b, tap.inside, within(ctx, position, in));
  const Expr end = in + p.pads[p.kernel.size() + d];
  next.padded = both(b, tap.padded, within(ctx, position + p.pads[d], end + p.pads[d]));
  return next;
}

bool is_unrolled(const PoolAttrs& p) {
  double positions = 1;
  for (const int64_t k : p.kernel) positions *= static_cast<double>(k);
  return positions <= kMaxUnrolledReads;
}

/// Calls body for every tap of the window. Small windows are unrolled.
void for_each_tap(ElementContext& ctx, const PoolAttrs& p, const PoolTap& tap,
                  const std::function<void(const PoolTap&)>& body) {
  const size_t d = tap.at.size();
  if (d == p.kernel.size()) {
    body(tap);
    return;
  }
  const auto next = [&](const Expr& k) { for_each_tap(ctx, p, step(ctx, p, tap, k), body); };
  if (is_unrolled(p)) {
    for (int64_t k = 0; k < p.kernel[d]; ++k) next(k);
  } else {
    ctx.loop(Expr(p.kernel[d]), next);
  }
}

/// A value that each tap updates. It is a local if the taps are a loop.
class Accumulator {
 public:
  Accumulator(ElementContext& ctx, const PoolAttrs& p, Val start) : b_(ctx.builder()), v_(start) {
    if (is_unrolled(p)) return;
    local_ = b_.local("acc", b_.type(start));
    b_.local_store(local_, start);
  }
  Val get() { return local_ < 0 ? v_ : b_.local_load(local_); }
  void set(Val v) {
    v_ = v;
    if (local_ >= 0) b_.local_store(local_, v);
  }

 private:
  kernel::Builder& b_;
  Val v_;
  int local_ = -1;
};

/// Combines the accumulator with the element of a tap, if the tap is inside the input.
Result<Val> combine_tap(ElementContext& ctx, const DataAxes& axes, const PoolTap& tap, Val old,
                        const std::function<Val(Val, Val)>& combine) {
  const auto with = [&]() -> Result<Val> {
    const Index at = axes.arrange(ctx.index()[0], ctx.index()[axes.channel], tap.at);
    RP_ASSIGN(const Val x, ctx.input(0, at));
    return combine(old, x);
  };
  if (!tap.inside) return with();
  const Shape& in = ctx.input_shape(0);
  const bool has_elements = std::all_of(
      in.begin(), in.end(), [&](const Expr& d) { return bounds(d, ctx.graph().symbols).lo >= 1; });
  if (!has_elements) return ctx.guarded(tap.inside, old, with);
  RP_ASSIGN(const Val v, with());
  return ctx.builder().select(tap.inside, v, old);
}

/// The position of a pixel in its image. Rows or columns vary fastest.
Expr pixel_position(const Index& at, const Shape& image, bool column_major) {
  if (!column_major) return linearize(at, image);
  return linearize({at.rbegin(), at.rend()}, {image.rbegin(), image.rend()});
}

/// Where the first of the largest elements is, counted over the whole tensor. A NaN is the largest.
Status max_index_element(ElementContext& ctx) {
  kernel::Builder& b = ctx.builder();
  const PoolAttrs p = pool_attrs(ctx);
  const Shape& in = ctx.input_shape(0);
  const Shape image(in.begin() + 2, in.end());
  const bool column_major = Attributes(ctx.node()).get_int("storage_order") != 0;
  const DType dtype = ctx.graph().value(ctx.node().inputs[0]).dtype;
  const Val none = b.constant(ctx.compute(dtype), 0);
  Accumulator largest(ctx, p, none), where(ctx, p, b.i32(-1));
  Status status;
  for_each_tap(ctx, p, {}, [&](const PoolTap& tap) {
    const auto x = combine_tap(ctx, p.axes, tap, none, [](Val, Val v) { return v; });
    if (!x.ok()) status = x.status();
    if (!x.ok()) return;
    const Val old = largest.get(), at = where.get();
    Val wins = b.logical_or(b.lt(at, b.i32(0)), b.lt(old, *x));
    if (is_float(dtype)) {
      const Val first_nan = b.logical_and(b.logical_not(b.eq(*x, *x)), b.eq(old, old));
      wins = b.logical_or(wins, first_nan);
    }
    if (tap.inside) wins = b.logical_and(wins, tap.inside);
    const Val here = ctx.value(ctx.simplify(pixel_position(tap.at, image, column_major)));
    largest.set(b.select(wins, *x, old));
    where.set(b.select(wins, here, at));
  });
  const Expr first = (ctx.index()[0] * in[1] + ctx.index()[1]) * element_count(image);
  ctx.set(b.convert(b.add(ctx.value(ctx.simplify(first)), where.get()), kernel::Ty::I64));
  return status;
}

Status max_pool_element(ElementContext& ctx) {
  if (ctx.output() == 1) return max_index_element(ctx);
  kernel::Builder& b = ctx.builder();
  const DType dtype = ctx.graph().value(ctx.node().outputs[0]).dtype;
  double lowest = -std::numeric_limits<double>::infinity();
  if (!is_float(dtype)) {
    lowest = is_signed_int(dtype) ? -std::ldexp(1.0, static_cast<int>(size_of(dtype)) * 8 - 1) : 0;
  }
  const PoolAttrs p = pool_attrs(ctx);
  Accumulator largest(ctx, p, b.constant(ctx.compute(dtype), lowest));
  Status status;
  for_each_tap(ctx, p, {}, [&](const PoolTap& tap) {
    auto v =
        combine_tap(ctx, p.axes, tap, largest.get(), [&](Val old, Val x) { return b.max(old, x); });
    if (v.ok()) largest.set(*v);
    if (!v.ok()) status = v.status();
  });
  ctx.set(largest.get());
  return status;
}

/// The divisor is the number of taps inside the input or, with count_include_pad, inside the padded
/// input: in ceil mode the last window may extend beyond the padding.
Status average_pool_element(ElementContext& ctx) {
  kernel::Builder& b = ctx.builder();
  const PoolAttrs p = pool_attrs(ctx);
  const bool include_pad = Attributes(ctx.node()).get_int("count_include_pad") != 0;
  const kernel::Type type = ctx.compute(ctx.graph().value(ctx.node().outputs[0]).dtype);
  Accumulator sum(ctx, p, b.constant(type, 0));
  Accumulator taps(ctx, p, b.i32(0));
  Status status;
  for_each_tap(ctx, p, {}, [&](const PoolTap& tap) {
    auto v =
        combine_tap(ctx, p.axes, tap, sum.get(), [&](Val old, Val x) { return b.add(old, x); });
    if (v.ok()) sum.set(*v);
    if (!v.ok()) status = v.status();
    const Val counts = include_pad ? tap.padded : tap.inside;
    taps.set(b.add(taps.get(), counts ? b.select(counts, b.i32(1), b.i32(0)) : b.i32(1)));
  });
  ctx.set(b.div(sum.get(), b.convert(taps.get(), type.ty)));
  return status;
}

double pool_reads(const graph::Graph&, const graph::Node& n) {
  double reads = 1;
  for (int64_t k : Attributes(n).get_ints("kernel_shape")) reads *= static_cast<double>(k);
  return reads;
}

// --- Global pools --------------------------------------------------------------------------------

Status infer_global_pool(InferContext& ctx) {
  RP_TRY(require_rank(ctx, 0, 2));
  RP_TRY(require_float(ctx, 0));
  Shape out = ctx.shape(0);
  for (size_t d = 2; d < out.size(); ++d) out[d] = 1;
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

std::vector<int64_t> spatial_axes(OpBuilder& c) {
  return iota(2, static_cast<int64_t>(c.shape(c.in(0)).size()));
}

Result<bool> global_max_pool(Rewriter& rw) {
  OpBuilder c(rw);
  c.replace(0, c.reduce("ReduceMax", c.in(0), spatial_axes(c)));
  return c.finish();
}

Result<bool> global_average_pool(Rewriter& rw) {
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  const auto axes = spatial_axes(c);
  const V x = c.cast(c.in(0), accumulate_dtype(t));
  c.replace(0, c.cast(axes.empty() ? x : c.mean(x, axes), t));
  return c.finish();
}

Result<bool> global_lp_pool(Rewriter& rw) {
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  const double p = static_cast<double>(c.attrs().get_int("p"));
  const V x = c.op("Abs", {c.cast(c.in(0), accumulate_dtype(t))});
  const auto power = [&](V v, double e) {
    return e == 1 ? v : e == 2 ? c.mul(v, v) : c.op("Pow", {v, c.scalar(c.dtype(v), e)});
  };
  const V sum = c.reduce("ReduceSum", power(x, p), spatial_axes(c));
  c.replace(0, c.cast(p == 2 ? c.op("Sqrt", {sum}) : power(sum, 1 / p), t));
  return c.finish();
}

constexpr AttrDecl kMaxPoolAttrs[] = {
    string_attr("auto_pad", "NOTSET", CoreForm::Absent),
    int_attr("ceil_mode", 0),
    optional_attr("dilations", AttrType::Ints, CoreForm::Spatial),
    required_attr("kernel_shape", AttrType::Ints, CoreForm::Spatial),
    optional_attr("pads", AttrType::Ints, CoreForm::SpatialPads),
    optional_attr("strides", AttrType::Ints, CoreForm::Spatial),
    {.name = "storage_order", .fallback = int64_t{0}, .core_optional = true},
    core_flag("channels_last")};
constexpr AttrDecl kAveragePoolAttrs[] = {
    string_attr("auto_pad", "NOTSET", CoreForm::Absent),
    int_attr("ceil_mode", 0),
    int_attr("count_include_pad", 0),
    optional_attr("dilations", AttrType::Ints, CoreForm::Spatial),
    required_attr("kernel_shape", AttrType::Ints, CoreForm::Spatial),
    optional_attr("pads", AttrType::Ints, CoreForm::SpatialPads),
    optional_attr("strides", AttrType::Ints, CoreForm::Spatial),
    core_flag("channels_last")};
constexpr AttrDecl kLpPoolAttrs[] = {string_attr("auto_pad", "NOTSET"),
                                     int_attr("ceil_mode", 0),
                                     optional_attr("dilations", AttrType::Ints),
                                     required_attr("kernel_shape", AttrType::Ints),
                                     optional_attr("pads", AttrType::Ints),
                                     optional_attr("strides", AttrType::Ints),
                                     int_attr("p", 2)};
constexpr AttrDecl kGlobalLpPoolAttrs[] = {int_attr("p", 2)};

constexpr OpDef global(std::string_view name, Result<bool> (*decompose)(Rewriter&),
                       std::span<const AttrDecl> attributes = {}) {
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
       .max_outputs = 2,
       .attributes = kMaxPoolAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .layout = LayoutRole::Window,
       .reads_per_element = pool_reads},
      {.name = "AveragePool",
       .infer = infer_pool,
       .decompose = average_pool,
       .lowering = Lowering::Element,
       .element = average_pool_element,
       .attributes = kAveragePoolAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .layout = LayoutRole::Window,
       .reads_per_element = pool_reads},
      {.name = "LpPool",
       .infer = infer_pool,
       .decompose = lp_pool,
       .min_opset = 2,
       .attributes = kLpPoolAttrs},
      global("GlobalMaxPool", global_max_pool),
      global("GlobalAveragePool", global_average_pool),
      global("GlobalLpPool", global_lp_pool, kGlobalLpPoolAttrs),
  };
  return kOps;
}

}  // namespace reprise::ops
