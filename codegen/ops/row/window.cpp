#include "codegen/ops/row/window.h"

#include <algorithm>

#include "codegen/ops/row/shape_arith.h"
#include "codegen/ops/row/support.h"

namespace reprise::ops {

std::vector<Expr> DataAxes::arrange(const Expr& batch, const Expr& channel_at,
                                    std::span<const Expr> spatial_at) const {
  std::vector<Expr> out{batch};
  out.insert(out.end(), spatial_at.begin(), spatial_at.end());
  out.insert(out.begin() + static_cast<std::ptrdiff_t>(channel), channel_at);
  return out;
}

bool is_channels_last(const graph::Node& n) {
  const Attributes attrs(n);
  return attrs.declares("channels_last") && attrs.get_int("channels_last") != 0;
}

DataAxes data_axes(const graph::Node& n, size_t rank) {
  return is_channels_last(n) ? DataAxes{rank - 1, 1} : DataAxes{1, 2};
}

ConvForm conv_form(int64_t group, int64_t in, int64_t out) {
  constexpr int64_t kMinColumns = 8;  // output channels of a group for which a GEMM pays
  if (group == 1 || out >= kMinColumns) return ConvForm::Gemm;
  return in == 1 && out == 1 ? ConvForm::Depthwise : ConvForm::Grouped;
}

bool Window::static_pads() const {
  return std::all_of(begin.begin(), begin.end(), [](const Expr& e) { return e.is_const(); }) &&
         std::all_of(end.begin(), end.end(), [](const Expr& e) { return e.is_const(); });
}

Result<std::vector<int64_t>> spatial_ints(const InferContext& ctx, const char* name, size_t count,
                                          int64_t fallback, int64_t lowest) {
  std::vector<int64_t> v = ctx.attrs().get_or(name, std::vector<int64_t>(count, fallback));
  if (v.size() != count) {
    return ctx.invalid("attribute '" + std::string(name) + "' has " + std::to_string(v.size()) +
                       " entries, expected " + std::to_string(count));
  }
  for (int64_t x : v) {
    if (x < lowest || x >= (int64_t{1} << 31)) {
      return ctx.invalid("attribute '" + std::string(name) + "' holds " + std::to_string(x) +
                         ", must be in [" + std::to_string(lowest) + ", 2^31)");
    }
  }
  return v;
}

Status check_auto_pad(const InferContext& ctx) {
  const std::string mode = ctx.attrs().get_string("auto_pad");
  if (mode == "NOTSET" || mode == "VALID" || mode == "SAME_UPPER" || mode == "SAME_LOWER")
    return {};
  return ctx.invalid("auto_pad is '" + mode + "', must be NOTSET, VALID, SAME_UPPER or SAME_LOWER");
}

Result<std::vector<int64_t>> kernel_of_weight(const InferContext& ctx, size_t input) {
  const Shape& w = ctx.shape(input);
  std::vector<int64_t> kernel;
  for (size_t d = 2; d < w.size(); ++d) {
    if (!w[d].is_const()) {
      return ctx.error(Code::Unsupported, "the weight's spatial dims must be static, are " +
                                              ctx.str(w) + "; fix them with --shape");
    }
    kernel.push_back(w[d].value());
  }
  if (ctx.attrs().has("kernel_shape") && ctx.attrs().get_ints("kernel_shape") != kernel) {
    return ctx.invalid("kernel_shape does not match the weight " + ctx.str(w));
  }
  return kernel;
}

namespace {

Status same_pads(Window& w, bool upper, std::span<const Symbol> table) {
  for (size_t d = 0; d < w.rank(); ++d) {
    const Expr stride = w.strides[d];
    const Expr windows = Expr::ceildiv(w.in[d], stride);
    const Expr total = max_of((windows - 1) * stride + Expr(w.extent(d)) - w.in[d], 0, table);
    const Expr half = Expr::floordiv(total, 2);
    w.begin[d] = upper ? half : total - half;
    w.end[d] = total - w.begin[d];
    w.out[d] = windows;
  }
  return {};
}

bool rounds_up(const InferContext& ctx) {
  return ctx.attrs().get_int("ceil_mode") != 0;
}

/// A window that is larger than the padded input has no position. Convolutions refuse it. Pools in
/// ceil mode truncate it at the end of the input. In floor mode, the result of a pool is empty if
/// the window is larger by less than two strides, as in ONNX Runtime, which refuses others.
Status check_window(const InferContext& ctx, const Window& w, size_t d, WindowUse use) {
  const Expr extent = w.extent(d);
  const Expr padded = w.in[d] + w.begin[d] + w.end[d];
  const auto room = bounds(padded - extent, ctx.graph_symbols());
  const bool pool = use == WindowUse::Pool;
  const int64_t least = pool ? 1 - 2 * w.strides[d] : 0;
  if (room.hi < least && !w.in[d].is_const(0)) {
    return ctx.invalid("a window of " + std::to_string(w.extent(d)) +
                       " is larger than the padded input " + ctx.str(ctx.shape(0)));
  }
  if (room.lo == room.hi) return {};
  // In these cases a wrong output size is negative, which every run refuses without a guard.
  if (pool && (rounds_up(ctx) || w.strides[d] == 1)) return {};
  // No guard is needed if 0 is the only size that is too small, because the output is empty, too.
  const bool may_be_empty = bounds(w.in[d], ctx.graph_symbols()).lo == 0;
  if (room.lo + (may_be_empty ? 1 : 0) >= least) return {};
  ctx.at_least(padded, "the padded input", extent + least,
               pool ? "the least for a pool of this window" : "the window");
  return {};
}

/// The number of windows in an input whose padded size exceeds a window by `room`.
Expr window_count(const InferContext& ctx, const Window& w, size_t d, const Expr& room,
                  WindowUse use) {
  const Expr stride = w.strides[d];
  const Expr count = Expr::floordiv(room, stride) + 1;
  if (w.in[d].is_const() && count.is_const()) return std::max<int64_t>(count.value(), 0);
  // The count of a pool may be -1, which means none. An empty input has none without a minimum,
  // which would keep dims from being recognised as equal.
  const bool may_be_empty = bounds(w.in[d], ctx.graph_symbols()).lo == 0;
  const int64_t least = bounds(room, ctx.graph_symbols()).lo + (may_be_empty ? 1 : 0);
  const bool may_lack = use == WindowUse::Pool && w.strides[d] > 1 && least < -w.strides[d];
  return may_lack ? max_of(count, 0, ctx.graph_symbols()) : count;
}

Status output_sizes(const InferContext& ctx, Window& w, WindowUse use) {
  const bool ceil = use == WindowUse::Pool && rounds_up(ctx);
  for (size_t d = 0; d < w.rank(); ++d) {
    RP_TRY(check_window(ctx, w, d, use));
    const Expr stride = w.strides[d];
    const Expr room = w.in[d] + w.begin[d] + w.end[d] - Expr(w.extent(d));
    w.out[d] = window_count(ctx, w, d, room, use);
    if (ceil && w.strides[d] != 1) {
      // One more window counts if it starts inside the input or its left padding.
      w.out[d] = min_of(Expr::ceildiv(room, stride) + 1,
                        Expr::ceildiv(w.in[d] + w.begin[d], stride), ctx.graph_symbols());
    }
    if (w.in[d].is_const(0) && w.out[d].is_const())
      w.out[d] = std::max<int64_t>(w.out[d].value(), 0);
  }
  return {};
}

}  // namespace

Result<Window> read_window(const InferContext& ctx, std::vector<int64_t> kernel, WindowUse use) {
  Window w;
  w.kernel = std::move(kernel);
  const size_t n = w.kernel.size();
  if (n < 1 || n > 3 || ctx.shape(0).size() != n + 2) {
    return ctx.error(Code::Unsupported, "input " + ctx.str(ctx.shape(0)) + " with " +
                                            std::to_string(n) +
                                            " kernel dims: 1 to 3 spatial dims are supported");
  }
  for (int64_t k : w.kernel) {
    if (k < 1 || k >= (int64_t{1} << 31)) {
      return ctx.invalid("kernel_shape holds " + std::to_string(k));
    }
  }
  RP_ASSIGN(w.strides, spatial_ints(ctx, "strides", n, 1, 1));
  RP_ASSIGN(w.dilations, spatial_ints(ctx, "dilations", n, 1, 1));
  RP_TRY(check_auto_pad(ctx));
  const auto first = static_cast<std::ptrdiff_t>(data_axes(ctx.node(), n + 2).spatial);
  w.in.assign(ctx.shape(0).begin() + first,
              ctx.shape(0).begin() + first + static_cast<std::ptrdiff_t>(n));
  w.out = w.in;
  w.begin.assign(n, Expr(0));
  w.end.assign(n, Expr(0));
  const std::string mode = ctx.attrs().get_string("auto_pad");
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    RP_TRY(same_pads(w, mode == "SAME_UPPER", ctx.graph_symbols()));
    return w;
  }
  if (const auto* exprs = ctx.attrs().get<std::vector<Expr>>("pads")) {
    if (exprs->size() != 2 * n)
      return ctx.error(Code::Internal, "pads have " + std::to_string(exprs->size()) +
                                           " entries, expected " + std::to_string(2 * n));
    w.begin.assign(exprs->begin(), exprs->begin() + static_cast<std::ptrdiff_t>(n));
    w.end.assign(exprs->begin() + static_cast<std::ptrdiff_t>(n), exprs->end());
  } else if (mode == "NOTSET") {
    RP_ASSIGN(const auto pads, spatial_ints(ctx, "pads", 2 * n, 0, 0));
    for (size_t d = 0; d < n; ++d) {
      w.begin[d] = pads[d];
      w.end[d] = pads[n + d];
    }
  }
  RP_TRY(output_sizes(ctx, w, use));
  return w;
}

std::vector<int64_t> pad_ints(const Window& w) {
  std::vector<int64_t> pads;
  for (const Expr& e : w.begin) pads.push_back(e.value());
  for (const Expr& e : w.end) pads.push_back(e.value());
  return pads;
}

AttrMap window_attrs(const Window& w) {
  AttrMap a;
  a.set("strides", w.strides);
  a.set("dilations", w.dilations);
  if (w.static_pads()) {
    a.set("pads", pad_ints(w));
  } else {
    std::vector<Expr> pads = w.begin;
    pads.insert(pads.end(), w.end.begin(), w.end.end());
    a.set("pads", std::move(pads));
  }
  return a;
}

}  // namespace reprise::ops
