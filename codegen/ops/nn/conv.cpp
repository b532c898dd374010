// Convolutions. The core form has explicit pads and no bias. ConvTranspose gathers its inputs.
#include <algorithm>

#include "codegen/ops/math/product_sum.h"
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

Result<int64_t> group_count(const InferContext& ctx) {
  const int64_t g = ctx.attrs().get_int("group");
  if (g < 1 || g >= (int64_t{1} << 31))
    return ctx.invalid("group is " + std::to_string(g) + ", must be in [1, 2^31)");
  return g;
}

Status check_bias(const InferContext& ctx, const Expr& channels) {
  if (!ctx.has_input(2)) return {};
  const Shape& b = ctx.shape(2);
  const auto same =
      b.size() == 1 ? ctx.unify(b[0], channels, "channels") : Result<Expr>(ctx.invalid("rank"));
  if (same.ok()) return {};
  return ctx.invalid("bias " + ctx.str(b) + " does not fit " + channels.str(ctx.graph_symbols()) +
                     " output channels");
}

// --- Conv ----------------------------------------------------------------------------------------

Result<Window> conv_window(const InferContext& ctx) {
  if (ctx.rank(1) != ctx.rank(0)) {
    return ctx.invalid("input " + ctx.str(ctx.shape(0)) + " and weight " + ctx.str(ctx.shape(1)) +
                       " differ in rank");
  }
  RP_ASSIGN(auto kernel, kernel_of_weight(ctx, 1));
  return read_window(ctx, std::move(kernel), WindowUse::Conv);
}

Status infer_conv(InferContext& ctx) {
  RP_TRY(require_rank(ctx, 0, 3));
  RP_TRY(require_same_dtype(ctx));
  RP_ASSIGN(const Window w, conv_window(ctx));
  RP_ASSIGN(const int64_t group, group_count(ctx));
  const Shape x = ctx.shape(0);
  const Shape weight = ctx.shape(1);
  const DataAxes axes = data_axes(ctx.node(), x.size());
  const Expr& in_channels = x[axes.channel];
  const auto channels = ctx.unify(in_channels, weight[1] * Expr(group), "channels");
  if (!channels.ok()) {
    return ctx.invalid("input " + ctx.str(x) + " has " + in_channels.str(ctx.graph_symbols()) +
                       " channels, weight " + ctx.str(weight) + " with group " +
                       std::to_string(group) + " needs " +
                       (weight[1] * Expr(group)).str(ctx.graph_symbols()));
  }
  if (weight[0].is_const() && weight[0].value() % group != 0) {
    return ctx.invalid(std::to_string(weight[0].value()) +
                       " output channels are not a multiple of " + std::to_string(group) +
                       " groups");
  }
  RP_TRY(check_bias(ctx, weight[0]));
  ctx.set_output(0, ctx.dtype(0), axes.arrange(x[0], weight[0], w.out));
  return {};
}

V add_bias(OpBuilder& c, V y) {
  if (!c.has(2)) return y;
  return c.add(y, c.along_axis(c.in(2), 1, static_cast<int64_t>(c.shape(y).size())));
}

}  // namespace

/// Writes a core Conv. Pads that depend on a dim (SAME with a stride) become a separate Pad.
graph::ValueId core_conv(OpBuilder& c, graph::ValueId x, graph::ValueId weight, Window w,
                         int64_t group) {
  if (!w.static_pads()) {
    std::vector<Expr> pads(2, Expr(0));
    pads.insert(pads.end(), w.begin.begin(), w.begin.end());
    pads.insert(pads.end(), 2, Expr(0));
    pads.insert(pads.end(), w.end.begin(), w.end.end());
    w.begin.assign(w.rank(), Expr(0));
    w.end = w.begin;
    AttrMap a;
    a.set("mode", std::string("constant"));
    a.set("pads", std::move(pads));
    x = c.op("Pad", {x}, std::move(a));
  }
  AttrMap a = window_attrs(w);
  a.set("group", group);
  return c.op("Conv", {x, weight}, std::move(a));
}

namespace {

Result<bool> conv(Rewriter& rw) {
  if (rw.node().opset == 0 && rw.node().inputs.size() == 2) return false;
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const Window w, conv_window(ctx));
  OpBuilder c(rw);
  const int64_t group = c.attrs().get_int("group");
  c.replace(0, add_bias(c, core_conv(c, c.in(0), c.in(1), w, group)));
  return c.finish();
}

/// Writes nested loops over the taps of the spatial dims, outermost dim first.
void loop_taps(ElementContext& ctx, const std::vector<int64_t>& kernel, Index& tap,
               const std::function<void()>& body) {
  if (tap.size() == kernel.size()) {
    body();
    return;
  }
  ctx.loop(Expr(kernel[tap.size()]), [&](const Expr& k) {
    tap.push_back(k);
    loop_taps(ctx, kernel, tap, body);
    tap.pop_back();
  });
}

struct ConvAttrs {
  std::vector<int64_t> kernel, strides, dilations, pads;
  Expr group;
};

ConvAttrs conv_attrs(const ElementContext& ctx) {
  const Attributes a(ctx.node());
  ConvAttrs c;
  const Shape& w = ctx.input_shape(1);
  for (size_t d = 2; d < w.size(); ++d) c.kernel.push_back(w[d].value());
  c.strides = a.get_ints("strides");
  c.dilations = a.get_ints("dilations");
  c.pads = a.get_ints("pads");
  c.group = a.get_int("group");
  return c;
}

/// Computes one output element with plain loops, for convolutions that no tiled kernel supports.
Status conv_element(ElementContext& ctx) {
  kernel::Builder& b = ctx.builder();
  const ConvAttrs p = conv_attrs(ctx);
  const Shape& in = ctx.input_shape(0);
  const Shape& weight = ctx.input_shape(1);
  const Index& out = ctx.index();
  const DataAxes axes = data_axes(ctx.node(), out.size());
  const Expr out_channel = out[axes.channel];
  const Expr group_size = Expr::floordiv(weight[0], p.group);
  const Expr first_channel = Expr::floordiv(out_channel, group_size) * weight[1];
  ProductSum sum(ctx);
  Status status;
  ctx.loop(weight[1], [&](const Expr& channel) {
    Index tap;
    loop_taps(ctx, p.kernel, tap, [&] {
      Index positions;
      Index from{out_channel, channel};
      Val inside = b.boolean(true);
      for (size_t d = 0; d < tap.size(); ++d) {
        const Expr position = out[axes.spatial + d] * Expr(p.strides[d]) +
                              tap[d] * Expr(p.dilations[d]) - Expr(p.pads[d]);
        positions.push_back(position);
        from.push_back(tap[d]);
        if (p.pads[d] != 0 || p.pads[tap.size() + d] != 0) {
          const Val end = ctx.value(in[axes.spatial + d]);
          inside = b.logical_and(inside, b.in_range(ctx.value(position), end));
        }
      }
      const Index at = axes.arrange(out[0], first_channel + channel, positions);
      const Status s = sum.add_where(inside, at, from);
      if (!s.ok()) status = s;
    });
  });
  sum.finish();
  return status;
}

double conv_reads(const graph::Graph& g, const graph::Node& n) {
  double reads = 1;
  const Shape& w = g.value(n.inputs[1]).shape;
  for (size_t d = 1; d < w.size(); ++d) {
    reads *= w[d].is_const() ? static_cast<double>(w[d].value()) : 64.0;
  }
  return reads;
}

/// The channels and taps that one output element sums over.
Shape conv_contracted(const graph::Graph& g, const graph::Node& n) {
  const Shape& w = g.value(n.inputs[1]).shape;
  return {w.begin() + 1, w.end()};
}

ChannelAxes conv_channels(const graph::Graph& g, const graph::Node& n) {
  return {data_axes(n, g.value(n.outputs[0]).shape.size()).channel, 0};
}

Status check_core_conv(const graph::Graph&, const graph::Node& n) {
  return n.inputs.size() == 2
             ? Status{}
             : internal_error("a core Conv has " + std::to_string(n.inputs.size()) +
                              " inputs, expected 2");
}

// --- ConvTranspose -------------------------------------------------------------------------------

struct Transposed {
  std::vector<int64_t> strides, dilations, pads, extra;
  Shape out;  // spatial
};

/// Computes the pads for SAME or a given output shape. A negative total becomes output padding.
Status resolve_output_shape(const InferContext& ctx, const std::vector<int64_t>& kernel,
                            Transposed& t) {
  const size_t n = kernel.size();
  const bool upper = ctx.attrs().get_string("auto_pad") == "SAME_UPPER";
  const std::vector<int64_t> wanted = ctx.attrs().get_ints("output_shape");
  if (!wanted.empty() && wanted.size() != n && wanted.size() != n + 2) {
    return ctx.invalid("output_shape has " + std::to_string(wanted.size()) + " entries, expected " +
                       std::to_string(n) + " or " + std::to_string(n + 2));
  }
  for (size_t d = 0; d < n; ++d) {
    const Expr in = ctx.shape(0)[2 + d];
    const int64_t extent = (kernel[d] - 1) * t.dilations[d] + 1;
    const Expr full = Expr(t.strides[d]) * (in - 1) + Expr(t.extra[d] + extent);
    const Expr target =
        wanted.empty() ? in * Expr(t.strides[d]) : Expr(wanted[wanted.size() - n + d]);
    const Expr total = full - target;
    if (!total.is_const()) {
      return ctx.error(Code::Unsupported, "output_shape with the dynamic input " +
                                              ctx.str(ctx.shape(0)) + "; fix the input's shape");
    }
    const int64_t pad = std::max<int64_t>(total.value(), 0);
    t.pads[d] = upper ? pad / 2 : pad - pad / 2;
    t.pads[n + d] = pad - t.pads[d];
    t.extra[d] += pad - total.value();
  }
  return {};
}

Result<Transposed> read_transposed(const InferContext& ctx, const std::vector<int64_t>& kernel) {
  Transposed t;
  const size_t n = kernel.size();
  if (n < 1 || n > 3) {
    return ctx.error(Code::Unsupported,
                     "1 to 3 spatial dims are supported, input is " + ctx.str(ctx.shape(0)));
  }
  RP_ASSIGN(t.strides, spatial_ints(ctx, "strides", n, 1, 1));
  RP_ASSIGN(t.dilations, spatial_ints(ctx, "dilations", n, 1, 1));
  RP_ASSIGN(t.pads, spatial_ints(ctx, "pads", 2 * n, 0, 0));
  RP_ASSIGN(t.extra, spatial_ints(ctx, "output_padding", n, 0, 0));
  RP_TRY(check_auto_pad(ctx));
  const std::string mode = ctx.attrs().get_string("auto_pad");
  if (mode == "VALID") t.pads.assign(2 * n, 0);
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER" || ctx.attrs().has("output_shape")) {
    RP_TRY(resolve_output_shape(ctx, kernel, t));
  }
  for (size_t d = 0; d < n; ++d) {
    const int64_t extent = (kernel[d] - 1) * t.dilations[d] + 1;
    t.out.push_back(Expr(t.strides[d]) * (ctx.shape(0)[2 + d] - 1) +
                    Expr(t.extra[d] + extent - t.pads[d] - t.pads[n + d]));
  }
  return t;
}

Status infer_conv_transpose(InferContext& ctx) {
  RP_TRY(require_rank(ctx, 0, 3));
  RP_TRY(require_same_dtype(ctx));
  if (ctx.rank(1) != ctx.rank(0)) {
    return ctx.invalid("input " + ctx.str(ctx.shape(0)) + " and weight " + ctx.str(ctx.shape(1)) +
                       " differ in rank");
  }
  RP_ASSIGN(const auto kernel, kernel_of_weight(ctx, 1));
  RP_ASSIGN(const Transposed t, read_transposed(ctx, kernel));
  RP_ASSIGN(const int64_t group, group_count(ctx));
  const Shape x = ctx.shape(0);
  const Shape weight = ctx.shape(1);
  const auto channels = ctx.unify(x[1], weight[0], "channels");
  if (!channels.ok()) {
    return ctx.invalid("input " + ctx.str(x) + " and weight " + ctx.str(weight) +
                       " differ in channels");
  }
  if (weight[0].is_const() && weight[0].value() % group != 0) {
    return ctx.invalid(std::to_string(weight[0].value()) +
                       " input channels are not a multiple of " + std::to_string(group) +
                       " groups");
  }
  const Expr out_channels = weight[1] * Expr(group);
  RP_TRY(check_bias(ctx, out_channels));
  Shape out{x[0], out_channels};
  out.insert(out.end(), t.out.begin(), t.out.end());
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  return {};
}

/// Rearranges weights [in, out / group, K...] to those of an equivalent convolution, [out *
/// stride..., in / group, taps...]. Phase p of an axis uses the taps p, p + stride, ... in reverse
/// order. Channels of the result are ordered (out, phase...).
V phase_weights(OpBuilder& c, V weight, const Expr& group, const std::vector<int64_t>& strides,
                const std::vector<int64_t>& taps) {
  const Shape w = c.shape(weight);
  const auto n = static_cast<int64_t>(strides.size());
  std::vector<Expr> pads(2 * w.size(), Expr(0));
  Shape split{group, Expr::floordiv(w[0], group), w[1]};
  std::vector<int64_t> perm{0, 2};
  Shape merged{w[1] * group, Expr::floordiv(w[0], group)};
  for (int64_t d = 0; d < n; ++d) {
    const auto at = static_cast<size_t>(d);
    pads[w.size() + 2 + at] = Expr(taps[at] * strides[at]) - w[2 + at];
    split.emplace_back(taps[at]);
    split.emplace_back(strides[at]);
    perm.push_back(3 + 2 * d + 1);
    merged[0] = merged[0] * Expr(strides[at]);
    merged.emplace_back(taps[at]);
  }
  perm.push_back(1);
  for (int64_t d = 0; d < n; ++d) perm.push_back(3 + 2 * d);
  AttrMap pad;
  pad.set("mode", std::string("constant"));
  pad.set("pads", std::move(pads));
  V v = c.transpose(c.reshape(c.op("Pad", {weight}, std::move(pad)), split), perm);
  v = c.reshape(v, merged);
  std::vector<Expr> starts(merged.size(), Expr(0)), steps(merged.size(), Expr(1));
  for (size_t d = 2; d < merged.size(); ++d) {
    starts[d] = merged[d] - Expr(1);
    steps[d] = Expr(-1);
  }
  return c.slice(v, std::move(starts), std::move(steps), merged);
}

/// A transposed convolution without dilation is a convolution that computes the outputs of one
/// stride as channels: out[s * q + p] = sum over t of x[q - t] * w[p + s * t]. The channels are
/// then interleaved along the spatial axes.
V as_convolution(OpBuilder& c, const std::vector<int64_t>& kernel, const Transposed& t,
                 int64_t group) {
  const size_t n = kernel.size();
  const Shape x = c.shape(c.in(0));
  const Expr channels = c.shape(c.in(1))[1] * Expr(group);
  Window window;
  std::vector<int64_t> perm{0, 1};
  Shape split{x[0], channels}, joined{x[0], channels};
  std::vector<Expr> starts{Expr(0), Expr(0)};
  for (size_t d = 0; d < n; ++d) {
    const int64_t taps = (kernel[d] + t.extra[d] + t.strides[d] - 1) / t.strides[d];
    window.kernel.push_back(taps);
    window.begin.emplace_back(taps - 1);
    window.end.emplace_back(taps - 1);
    window.out.push_back(x[2 + d] + Expr(taps - 1));
    split.emplace_back(t.strides[d]);
    perm.push_back(static_cast<int64_t>(2 + n + d));
    perm.push_back(static_cast<int64_t>(2 + d));
    joined.push_back(window.out[d] * Expr(t.strides[d]));
    starts.emplace_back(t.pads[d]);
  }
  window.strides.assign(n, 1);
  window.dilations.assign(n, 1);
  split.insert(split.end(), window.out.begin(), window.out.end());
  const V weight = phase_weights(c, c.in(1), group, t.strides, window.kernel);
  const V phases = core_conv(c, c.in(0), weight, window, group);
  const V y = c.reshape(c.transpose(c.reshape(phases, split), perm), joined);
  Shape out{x[0], channels};
  out.insert(out.end(), t.out.begin(), t.out.end());
  return c.slice(y, std::move(starts), std::vector<Expr>(n + 2, Expr(1)), out);
}

Result<bool> conv_transpose(Rewriter& rw) {
  if (rw.node().opset == 0 && rw.node().inputs.size() == 2) return false;
  const InferContext ctx(rw.graph(), rw.node());
  RP_ASSIGN(const auto kernel, kernel_of_weight(ctx, 1));
  RP_ASSIGN(const Transposed t, read_transposed(ctx, kernel));
  OpBuilder c(rw);
  const bool dilated = std::any_of(t.dilations.begin(), t.dilations.end(),
                                   [](int64_t dilation) { return dilation != 1; });
  if (!dilated) {
    c.replace(0, add_bias(c, as_convolution(c, kernel, t, c.attrs().get_int("group"))));
    return c.finish();
  }
  AttrMap a;
  a.set("strides", t.strides);
  a.set("dilations", t.dilations);
  a.set("pads", t.pads);
  a.set("output_padding", t.extra);
  a.set("group", c.attrs().get_int("group"));
  c.replace(0, add_bias(c, c.op("ConvTranspose", {c.in(0), c.in(1)}, std::move(a))));
  return c.finish();
}

/// Gathers the inputs of one output element. An input position contributes through tap k if
/// position * stride = out + pad - k * dilation.
Status conv_transpose_element(ElementContext& ctx) {
  kernel::Builder& b = ctx.builder();
  const ConvAttrs p = conv_attrs(ctx);
  const Shape& in = ctx.input_shape(0);
  const Shape& weight = ctx.input_shape(1);
  const Index& out = ctx.index();
  const Expr group_channels = Expr::floordiv(weight[0], p.group);
  const Expr first_channel = Expr::floordiv(out[1], weight[1]) * group_channels;
  ProductSum sum(ctx);
  Status status;
  ctx.loop(group_channels, [&](const Expr& channel) {
    Index tap;
    loop_taps(ctx, p.kernel, tap, [&] {
      Index at{out[0], first_channel + channel};
      Index from{first_channel + channel, Expr::mod(out[1], weight[1])};
      Val inside = b.boolean(true);
      for (size_t d = 0; d < tap.size(); ++d) {
        const Val scaled = ctx.value(out[2 + d] + Expr(p.pads[d]) - tap[d] * Expr(p.dilations[d]));
        const Val stride = b.i32(p.strides[d]);
        const Val position = b.div(scaled, stride);
        const Val hit = b.eq(b.mul(position, stride), scaled);
        const Val within = b.in_range(position, ctx.value(in[2 + d]));
        inside = b.logical_and(inside, b.logical_and(hit, within));
        at.push_back(ctx.opaque(position, in[2 + d]));
        from.push_back(tap[d]);
      }
      const Status s = sum.add_where(inside, at, from);
      if (!s.ok()) status = s;
    });
  });
  sum.finish();
  return status;
}

double conv_transpose_reads(const graph::Graph& g, const graph::Node& n) {
  const Shape& w = g.value(n.inputs[1]).shape;
  double reads = w[0].is_const() ? static_cast<double>(w[0].value()) : 64.0;
  for (size_t d = 2; d < w.size(); ++d) reads *= static_cast<double>(w[d].value());
  return reads;
}

constexpr AttrDecl kConvAttrs[] = {string_attr("auto_pad", "NOTSET", CoreForm::Absent),
                                   optional_attr("dilations", AttrType::Ints, CoreForm::Spatial),
                                   int_attr("group", 1, CoreForm::Int),
                                   optional_attr("kernel_shape", AttrType::Ints),
                                   optional_attr("pads", AttrType::Ints, CoreForm::StaticPads),
                                   optional_attr("strides", AttrType::Ints, CoreForm::Spatial),
                                   core_flag("channels_last")};
constexpr AttrDecl kConvTransposeAttrs[] = {
    string_attr("auto_pad", "NOTSET", CoreForm::Absent),
    optional_attr("dilations", AttrType::Ints, CoreForm::Spatial),
    int_attr("group", 1, CoreForm::Int),
    optional_attr("kernel_shape", AttrType::Ints),
    optional_attr("output_padding", AttrType::Ints, CoreForm::Spatial),
    optional_attr("output_shape", AttrType::Ints, CoreForm::Absent),
    optional_attr("pads", AttrType::Ints, CoreForm::StaticPads),
    optional_attr("strides", AttrType::Ints, CoreForm::Spatial)};

}  // namespace

std::span<const OpDef> conv_ops() {
  static constexpr OpDef kOps[] = {
      {.name = "Conv",
       .infer = infer_conv,
       .decompose = conv,
       .lowering = Lowering::Conv,
       .element = conv_element,
       .min_inputs = 2,
       .max_inputs = 3,
       .attributes = kConvAttrs,
       .check_core = check_core_conv,
       .sensitivity = kernel::Sensitivity::None,
       .host_rounding = HostRounding::Layer,
       .quantized_input = 1,
       .layout = LayoutRole::Window,
       .reads_per_element = conv_reads,
       .contracted = conv_contracted,
       .channels = conv_channels},
      {.name = "ConvTranspose",
       .infer = infer_conv_transpose,
       .decompose = conv_transpose,
       .lowering = Lowering::Element,
       .element = conv_transpose_element,
       .min_inputs = 2,
       .max_inputs = 3,
       .attributes = kConvTransposeAttrs,
       .sensitivity = kernel::Sensitivity::None,
       .host_rounding = HostRounding::Layer,
       .layout = LayoutRole::Fixed,
       .reads_per_element = conv_transpose_reads},
  };
  return kOps;
}

}  // namespace reprise::ops
