// Resize and Upsample. Source positions are rational numbers in index arithmetic, so that the
// neighbours are exact. Rounding could select the wrong one.
//
// Core form: input X; attributes mode (nearest, linear, cubic), coordinate_transformation_mode,
// nearest_mode, cubic_coeff_a, exclude_outside, and either `scales` (floats, one per axis) or
// `sizes` (exprs, one per axis); the sizes are the output's shape.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "codegen/ops/nn/antialias.h"
#include "codegen/ops/row/element.h"
#include "codegen/ops/row/families.h"
#include "codegen/ops/row/op_builder.h"
#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"
#include "runtime/base/number_text.h"

namespace reprise::ops {

namespace {

using kernel::Val;

/// The scales or sizes of a Resize, one entry per axis of X.
struct Request {
  std::vector<float> scales;  // empty if sizes are given
  std::vector<Expr> sizes;
  bool stretch = true;
};

bool old_form(const InferContext& ctx) {
  return ctx.node().op == "Upsample" || ctx.opset() < 11;
}

/// The scales of an attribute or a constant input. Empty if there are none or they are not
/// constant.
std::vector<float> given_scales(const InferContext& ctx) {
  if (const auto* f = ctx.attrs().get<std::vector<float>>("scales")) return *f;
  const size_t i = old_form(ctx) ? 1 : 2;
  if (!ctx.has_input(i)) return {};
  const auto v = constant_numbers(ctx.input(i));
  return v ? std::vector<float>(v->begin(), v->end()) : std::vector<float>{};
}

std::optional<std::vector<Expr>> given_sizes(const InferContext& ctx) {
  if (const auto* e = ctx.attrs().get<std::vector<Expr>>("sizes")) return *e;
  if (old_form(ctx) || !ctx.has_input(3)) return std::nullopt;
  return ctx.elements(3);
}

/// Nothing if the sizes depend on data.
Result<std::optional<Request>> read_request(const InferContext& ctx) {
  const auto rank = static_cast<size_t>(ctx.rank(0));
  std::vector<int64_t> axes = iota(0, ctx.rank(0));
  if (ctx.attrs().has("axes")) {
    RP_ASSIGN(axes, ctx.axes(ctx.attrs().get_ints("axes"), ctx.rank(0)));
  }
  Request r;
  r.stretch = ctx.attrs().get_string("keep_aspect_ratio_policy") == "stretch";
  const auto sizes = given_sizes(ctx);
  const std::vector<float> scales = given_scales(ctx);
  if (sizes && !sizes->empty()) {
    if (sizes->size() != axes.size())
      return ctx.invalid("has " + std::to_string(sizes->size()) + " sizes for " +
                         std::to_string(axes.size()) + " axes");
    r.sizes = ctx.shape(0);
    for (size_t i = 0; i < axes.size(); ++i) r.sizes[static_cast<size_t>(axes[i])] = (*sizes)[i];
    return std::optional(std::move(r));
  }
  if (scales.empty()) return std::optional<Request>{};
  if (scales.size() != axes.size())
    return ctx.invalid("has " + std::to_string(scales.size()) + " scales for " +
                       std::to_string(axes.size()) + " axes");
  r.scales.assign(rank, 1.0F);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!(scales[i] > 0) || !std::isfinite(scales[i]) || scales[i] > 1e6F) {
      return ctx.invalid("a scale is " + number_text(scales[i]) + ", must be in (0, 1e6]");
    }
    r.scales[static_cast<size_t>(axes[i])] = scales[i];
  }
  return std::optional(std::move(r));
}

/// floor(dim * scale), exactly: a float is an integer divided by a power of two.
Expr scaled_dim(const Expr& dim, float scale) {
  if (dim.is_const()) {
    return Expr(static_cast<int64_t>(
        std::floor(static_cast<double>(dim.value()) * static_cast<double>(scale))));
  }
  int exponent = 0;
  const float mantissa = std::frexp(scale, &exponent);
  auto numerator = static_cast<int64_t>(std::ldexp(mantissa, 24));
  int shift = 24 - exponent;
  while (shift > 0 && numerator % 2 == 0) {
    numerator /= 2;
    --shift;
  }
  if (shift <= 0) return dim * Expr(numerator * (int64_t{1} << -shift));
  if (shift > 61) return 0;  // all dims are far smaller
  return Expr::floordiv(dim * Expr(numerator), Expr(int64_t{1} << shift));
}

/// An attribute that did not exist in old versions or had another default there.
std::string by_version(const InferContext& ctx, std::string_view name, const char* old_default) {
  const Attributes attrs = ctx.attrs();
  return old_form(ctx) ? attrs.get_or<std::string>(name, old_default) : attrs.get_string(name);
}

std::string coordinate_mode(const InferContext& ctx) {
  return by_version(ctx, "coordinate_transformation_mode", "asymmetric");
}

std::string interpolation(const InferContext& ctx) {
  const std::string mode = ctx.attrs().get_string("mode");
  return mode == "bilinear" ? "linear" : mode;
}

/// The sizes under a policy that keeps the aspect ratio, for static shapes.
Result<Shape> kept_aspect(const InferContext& ctx, const Request& r) {
  const bool larger = ctx.attrs().get_string("keep_aspect_ratio_policy") == "not_smaller";
  const Shape& in = ctx.shape(0);
  if (!is_static(in) || !is_static(r.sizes)) {
    return ctx.error(Code::Unsupported, "keep_aspect_ratio_policy needs static shapes");
  }
  std::vector<int64_t> axes = iota(0, ctx.rank(0));
  if (ctx.attrs().has("axes")) {
    RP_ASSIGN(axes, ctx.axes(ctx.attrs().get_ints("axes"), ctx.rank(0)));
  }
  double scale = larger ? 0 : 1e9;
  for (int64_t a : axes) {
    const auto d = static_cast<size_t>(a);
    if (in[d].is_const(0)) return ctx.invalid("cannot keep the aspect ratio of an empty tensor");
    const double s = static_cast<double>(r.sizes[d].value()) / static_cast<double>(in[d].value());
    scale = larger ? std::max(scale, s) : std::min(scale, s);
  }
  Shape out = in;
  for (int64_t a : axes) {
    const auto d = static_cast<size_t>(a);
    out[d] = Expr(static_cast<int64_t>(std::round(scale * static_cast<double>(in[d].value()))));
  }
  return out;
}

Status infer_resize(InferContext& ctx) {
  const std::string mode = interpolation(ctx);
  if (mode != "nearest" && mode != "linear" && mode != "cubic") {
    return ctx.error(Code::Unsupported, "mode = '" + mode + "'; known: nearest, linear, cubic");
  }
  RP_ASSIGN(const auto request, read_request(ctx));
  Shape out;
  if (!request) {
    const bool any = ctx.has_input(1) || ctx.has_input(2) || ctx.has_input(3);
    if (!any) return ctx.invalid("neither scales nor sizes are given");
    out = ctx.fresh_shape(0, ctx.shape(0).size());
  } else if (!request->stretch && !request->sizes.empty()) {
    RP_ASSIGN(out, kept_aspect(ctx, *request));
  } else if (!request->sizes.empty()) {
    out = request->sizes;
  } else if (coordinate_mode(ctx) == "tf_crop_and_resize") {
    out = ctx.fresh_shape(0, ctx.shape(0).size());
  } else {
    for (size_t d = 0; d < ctx.shape(0).size(); ++d) {
      out.push_back(scaled_dim(ctx.shape(0)[d], request->scales[d]));
    }
  }
  for (const Expr& d : out) {
    if (d.is_const() && d.value() < 0)
      return ctx.invalid("sizes must not be negative, are " + ctx.str(out));
  }
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

/// The fraction with the smallest denominator that rounds to this float (0.7f: 7/10).
std::pair<int64_t, int64_t> simplest_fraction(float scale) {
  int64_t p0 = 0, q0 = 1, p1 = 1, q1 = 0;
  double x = scale;
  for (int i = 0; i < 40; ++i) {
    const double whole = std::floor(x);
    if (whole > 1e9) break;
    const auto a = static_cast<int64_t>(whole);
    const int64_t p2 = a * p1 + p0;
    const int64_t q2 = a * q1 + q0;
    if (p2 > (1 << 28) || q2 > (1 << 28)) break;
    p0 = std::exchange(p1, p2);
    q0 = std::exchange(q1, q2);
    if (static_cast<float>(static_cast<double>(p1) / static_cast<double>(q1)) == scale) break;
    x = 1 / (x - whole);
  }
  return {p1, q1};
}

/// A rational number, such as the scale of an axis.
struct Ratio {
  Expr num, den;
};
Ratio axis_ratio(std::span<const float> scales, size_t d, const Expr& in, const Expr& out) {
  if (scales.empty()) return {out, in};
  const auto [p, q] = simplest_fraction(scales[d]);
  return {Expr(p), Expr(q)};
}

/// Ensures that index arithmetic along an axis fits 32 bits, by proof or by a guard.
Status check_magnitude(const InferContext& ctx, const Ratio& r, const Expr& in, const Expr& out) {
  const Expr largest =
      Expr(4) * (out + 1) * max_of(r.den, in, ctx.graph_symbols()) + Expr(4) * r.num * Expr(2);
  const Expr limit = (int64_t{1} << 31) - 1;
  if (proven_le(largest, limit, ctx.graph_symbols())) return {};
  return ctx.unify(Expr::min(largest, limit), largest, "index range").status();
}

/// Whether an axis of this size may be interpolated. Others are copied.
bool is_scaled(const InferContext& ctx, const Request& r, const Shape& out, size_t d) {
  return r.scales.empty() ? ctx.shape(0)[d] != out[d] : r.scales[d] != 1.0F;
}

/// Why devices have no form of this request; empty if they have one.
std::string no_device_form(const InferContext& ctx, const Request& r, const Shape& out) {
  const std::string mode = interpolation(ctx);
  const std::string coordinates = coordinate_mode(ctx);
  if (!r.stretch) return "a policy that keeps the aspect ratio has no device form";
  if (coordinates == "tf_crop_and_resize") return "tf_crop_and_resize has no device form";
  if (mode != "nearest" && !is_float(ctx.dtype(0)))
    return "interpolated integers are rounded, which needs float64";
  const bool antialias = ctx.attrs().get_int("antialias") != 0 && mode != "nearest";
  for (size_t d = 0; d < out.size(); ++d) {
    if (!is_scaled(ctx, r, out, d)) continue;
    const bool varies = !out[d].is_const() || !ctx.shape(0)[d].is_const();
    const std::string axis = "the size of axis " + std::to_string(d) + " varies";
    if (varies && antialias) return axis + ", and kernels need the weights of antialiasing";
    // Only a run knows whether the axis is copied.
    if (varies && r.scales.empty() && (mode == "cubic" || coordinates == "tf_half_pixel_for_nn"))
      return axis + ", and kernels need its scale";
    // This mode treats output sizes of 1 separately.
    if (coordinates == "pytorch_half_pixel" && !out[d].is_const() &&
        bounds(out[d], ctx.graph_symbols()).lo <= 1)
      return axis + ", and may be 1" + range_advice(ctx.graph(), out[d]);
  }
  return {};
}

Result<bool> resize(Rewriter& rw) {
  if (rw.node().opset == 0) return false;
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const auto request, read_request(ctx));
  const Shape out = rw.graph().value(rw.node().outputs[0]).shape;
  if (!request) return false;
  if (std::string why = no_device_form(ctx, *request, out); !why.empty())
    return rw.keep(std::move(why));
  if (ctx.attrs().get_int("antialias") != 0 && interpolation(ctx) != "nearest")
    return resize_antialiased(rw, interpolation(ctx), coordinate_mode(ctx), request->scales);
  AttrMap a;
  a.set("mode", interpolation(ctx));
  a.set("coordinate_transformation_mode", coordinate_mode(ctx));
  a.set("nearest_mode", by_version(ctx, "nearest_mode", "floor"));
  a.set("cubic_coeff_a", ctx.attrs().get_float("cubic_coeff_a"));
  a.set("exclude_outside", ctx.attrs().get_int("exclude_outside"));
  if (request->sizes.empty()) {
    a.set("scales", request->scales);
  } else {
    a.set("sizes", request->sizes);
  }
  const Shape& in = ctx.shape(0);
  for (size_t d = 0; d < in.size(); ++d) {
    const auto s =
        check_magnitude(ctx, axis_ratio(request->scales, d, in[d], out[d]), in[d], out[d]);
    if (!s.ok()) return rw.keep("its positions do not fit 32 bits");
  }
  OpBuilder c(rw);
  const DType t = c.dtype(c.in(0));
  const DType inner = interpolation(ctx) == "nearest" ? t : accumulate_dtype(t);
  const auto y = c.op("Resize", {c.cast(c.in(0), inner)}, std::move(a));
  c.replace(0, c.cast(y, t));
  return c.finish();
}

// --- Element -------------------------------------------------------------------------------------

/// The source position of output index x along one axis, with a positive denominator.
Ratio source_position(const std::string& mode, const Expr& x, const Ratio& scale, const Expr& in,
                      const Expr& out) {
  const Expr& p = scale.num;
  const Expr& q = scale.den;
  const Expr middle = (Expr(2) * x + 1) * q;
  if (mode == "asymmetric") return {x * q, p};
  if (mode == "align_corners") {
    const bool one = out.is_const(1);
    return {one ? Expr(0) : x * (in - 1), one ? Expr(1) : Expr::max(out - 1, 1)};
  }
  if (mode == "tf_half_pixel_for_nn") return {middle, Expr(2) * p};
  if (mode == "pytorch_half_pixel" && out.is_const(1)) return {0, 1};
  if (mode == "half_pixel_symmetric") return {p * in - out * q + middle - p, Expr(2) * p};
  return {middle - p, Expr(2) * p};
}

/// Index arithmetic cannot divide negative numbers. Expr avoids them for constant denominators. For
/// others, the numerator is clamped, because positions before the first element read that element.
Ratio non_negative(const Ratio& at) {
  return at.den.is_const() ? at : Ratio{Expr::max(at.num, 0), at.den};
}

Expr nearest(const std::string& mode, const Ratio& at) {
  const Expr two = 2;
  if (mode == "floor") return Expr::floordiv(at.num, at.den);
  if (mode == "ceil") return Expr::floordiv(at.num + at.den - 1, at.den);
  if (mode == "round_prefer_ceil") return Expr::floordiv(two * at.num + at.den, two * at.den);
  return Expr::floordiv(two * at.num + at.den - 1, two * at.den);
}

struct ResizeTap {
  Expr index;
  Val weight;  // null: 1
};

Expr clamp_index(const Expr& i, const Expr& dim) {
  return Expr::max(Expr::min(i, dim - 1), 0);
}

/// The weights of the four taps around a position that is `fraction` after the second one. The
/// polynomials are factored, so that weights close to zero are accurate, too.
std::array<Val, 4> cubic_weights(kernel::Builder& b, Val fraction, float a) {
  const auto number = [&](double v) { return b.constant(b.type(fraction), v); };
  const Val rest = b.sub(number(1), fraction);
  const auto far = [&](Val t, Val u) { return b.mul(b.mul(b.mul(number(a), t), u), u); };
  const auto near = [&](Val t, Val u) {  // at distance t, and u = 1 - t
    return b.mul(u, b.sub(b.add(number(1), t), b.mul(b.mul(number(a + 2), t), t)));
  };
  return {far(fraction, rest), near(fraction, rest), near(rest, fraction), far(rest, fraction)};
}

std::vector<ResizeTap> cubic_taps(ElementContext& ctx, const Expr& base, Val fraction,
                                  const Expr& in) {
  kernel::Builder& b = ctx.builder();
  const Attributes attrs(ctx.node());
  const float a = attrs.get_float("cubic_coeff_a");
  const bool exclude = attrs.get_int("exclude_outside") != 0;
  const std::array<Val, 4> weights = cubic_weights(b, fraction, a);
  std::vector<ResizeTap> taps;
  Val sum;
  for (int64_t k = 0; k < 4; ++k) {
    Val w = weights[static_cast<size_t>(k)];
    const Expr position = base + Expr(k - 1);
    if (exclude) {
      w = b.select(b.in_range(ctx.value(position), ctx.value(in)), w, b.constant(b.type(w), 0));
      sum = sum ? b.add(sum, w) : w;
    }
    taps.push_back({clamp_index(position, in), w});
  }
  if (exclude) {
    for (ResizeTap& t : taps) t.weight = b.div(t.weight, sum);
  }
  return taps;
}

std::vector<ResizeTap> axis_taps(ElementContext& ctx, size_t d) {
  kernel::Builder& b = ctx.builder();
  const Attributes attrs(ctx.node());
  const Expr& in = ctx.input_shape(0)[d];
  const Expr& out = ctx.output_shape()[d];
  const Expr& x = ctx.index()[d];
  const std::string mode = attrs.get_string("mode");
  const std::string coordinates = attrs.get_string("coordinate_transformation_mode");
  const auto scales = attrs.get_or<std::vector<float>>("scales", {});
  const bool unscaled = scales.empty() ? in == out : scales[d] == 1.0F;
  if (unscaled) return {{x, {}}};
  const Ratio at =
      non_negative(source_position(coordinates, x, axis_ratio(scales, d, in, out), in, out));
  if (mode == "nearest") {
    const std::string rounding = attrs.get_string("nearest_mode");
    return {{clamp_index(nearest(rounding, at), in), {}}};
  }
  const Expr base = Expr::floordiv(at.num, at.den);
  const kernel::Type type = ctx.compute(ctx.graph().value(ctx.node().inputs[0]).dtype);
  const Val fraction = b.div(b.convert(ctx.value(Expr::mod(at.num, at.den)), type.ty),
                             b.convert(ctx.value(at.den), type.ty));
  if (mode == "cubic") return cubic_taps(ctx, base, fraction, in);
  return {{clamp_index(base, in), b.sub(b.constant(type, 1), fraction)},
          {clamp_index(base + 1, in), fraction}};
}

/// The weighted sum over the taps of axes [d, rank).
Result<Val> interpolate(ElementContext& ctx, const std::vector<std::vector<ResizeTap>>& taps,
                        size_t d, Index& at) {
  kernel::Builder& b = ctx.builder();
  if (d == taps.size()) return ctx.input(0, at);
  Val sum;
  for (const ResizeTap& t : taps[d]) {
    at.push_back(t.index);
    RP_ASSIGN(const Val v, interpolate(ctx, taps, d + 1, at));
    at.pop_back();
    const Val term = t.weight ? b.mul(v, t.weight) : v;
    sum = sum ? b.add(sum, term) : term;
  }
  return sum;
}

Status resize_element(ElementContext& ctx) {
  std::vector<std::vector<ResizeTap>> taps;
  for (size_t d = 0; d < ctx.input_shape(0).size(); ++d) taps.push_back(axis_taps(ctx, d));
  Index at;
  RP_ASSIGN(const Val v, interpolate(ctx, taps, 0, at));
  ctx.set(v);
  return {};
}

double resize_reads(const graph::Graph& g, const graph::Node& n) {
  const std::string mode = Attributes(n).get_string("mode");
  if (mode == "nearest") return 1;
  const Shape& in = g.value(n.inputs[0]).shape;
  const Shape& out = g.value(n.outputs[0]).shape;
  double reads = 1;
  for (size_t d = 0; d < in.size(); ++d) {
    if (in[d] != out[d]) reads *= mode == "linear" ? 2 : 4;
  }
  return reads;
}

Status check_core_resize(const graph::Graph&, const graph::Node& n) {
  const Attributes attrs(n);
  if (attrs.has("scales") != attrs.has("sizes")) return {};
  return internal_error("a core Resize must have either scales or sizes");
}

constexpr AttrDecl kResizeAttrs[] = {
    int_attr("antialias", 0),
    optional_attr("axes", AttrType::Ints, CoreForm::Absent),
    string_attr("coordinate_transformation_mode", "half_pixel"),
    float_attr("cubic_coeff_a", -0.75F),
    int_attr("exclude_outside", 0),
    float_attr("extrapolation_value", 0.0F),
    string_attr("keep_aspect_ratio_policy", "stretch", CoreForm::Absent),
    string_attr("mode", "nearest"),
    string_attr("nearest_mode", "round_prefer_floor"),
    {.name = "scales", .type = AttrType::Floats, .core = CoreForm::Scales, .core_optional = true},
    {.name = "sizes",
     .type = AttrType::Exprs,
     .core = CoreForm::Sizes,
     .internal = true,
     .core_optional = true}};
constexpr AttrDecl kUpsampleAttrs[] = {
    implied_attr(int_attr("antialias", 0)),
    implied_attr(optional_attr("axes", AttrType::Ints, CoreForm::Absent)),
    implied_attr(string_attr("coordinate_transformation_mode", "half_pixel")),
    implied_attr(float_attr("cubic_coeff_a", -0.75F)),
    implied_attr(int_attr("exclude_outside", 0)),
    implied_attr(float_attr("extrapolation_value", 0.0F)),
    implied_attr(string_attr("keep_aspect_ratio_policy", "stretch", CoreForm::Absent)),
    implied_attr(string_attr("nearest_mode", "round_prefer_floor")),
    string_attr("mode", "nearest"),
    optional_attr("scales", AttrType::Floats),
    {.name = "sizes",
     .type = AttrType::Exprs,
     .core = CoreForm::Sizes,
     .internal = true,
     .core_optional = true}};

}  // namespace

std::span<const OpDef> resize_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "Resize",
       .infer = infer_resize,
       .decompose = resize,
       .lowering = Lowering::Element,
       .element = resize_element,
       .min_opset = 10,
       .max_inputs = 4,
       .attributes = kResizeAttrs,
       .check_core = check_core_resize,
       .sensitivity = kernel::Sensitivity::None,
       .layout = LayoutRole::Axes,
       .reads_per_element = resize_reads},
      {.name = "Upsample",
       .infer = infer_resize,
       .decompose = resize,
       .min_opset = 7,
       .max_inputs = 2,
       .attributes = kUpsampleAttrs},
  };
  return kOps;
}

}  // namespace reprise::ops
