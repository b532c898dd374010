#include "runtime/host/nn/window.h"

#include <algorithm>

#include "runtime/base/integer_math.h"

namespace reprise::host {

namespace {

constexpr int64_t kMostWindow = int64_t{1} << 31;

Result<Dims> read_window(const Call& c, const char* name, size_t size, int64_t fallback,
                         int64_t lowest) {
  Dims v = c.attrs.get_ints(name, Dims(size, fallback));
  if (v.size() != size) {
    return invalid_model("attribute '" + std::string(name) + "' " + dims_str(v) + " needs " +
                         std::to_string(size) + " numbers");
  }
  for (int64_t x : v) {
    if (x < lowest || x >= kMostWindow) {
      return invalid_model("attribute '" + std::string(name) + "' " + dims_str(v) +
                           " is out of range");
    }
  }
  return v;
}

/// Reads everything except pads and `out`.
Result<Window> read_common(const Call& c, const Dims& x, std::span<const int64_t> kernel) {
  Window w;
  w.rank = static_cast<int64_t>(x.size()) - 2;
  if (w.rank < 1 || w.rank > 3) {
    return unsupported("input " + dims_str(x) + ": 1 to 3 spatial dimensions are supported");
  }
  const auto rank = static_cast<size_t>(w.rank);
  if (kernel.size() != rank) {
    return invalid_model("kernel " + dims_str(kernel) + " does not fit the input " + dims_str(x));
  }
  RP_TRY(checked_element_count(kernel, DType::U8).status().with_context("kernel"));
  RP_ASSIGN(const Dims strides, read_window(c, "strides", rank, 1, 1));
  RP_ASSIGN(const Dims dilations, read_window(c, "dilations", rank, 1, 1));
  for (size_t i = 0; i < rank; ++i) {
    const size_t d = 3 - rank + i;
    w.in[d] = x[2 + i];
    w.kernel[d] = kernel[i];
    w.strides[d] = strides[i];
    w.dilations[d] = dilations[i];
    if (kernel[i] < 1 || kernel[i] >= kMostWindow || x[2 + i] >= kMostWindow) {
      return invalid_model("kernel " + dims_str(kernel) + " over input " + dims_str(x) +
                           " is out of range");
    }
  }
  return w;
}

int64_t extent(const Window& w, size_t d) {
  return (w.kernel[d] - 1) * w.dilations[d] + 1;
}

Status read_pads(const Call& c, Window& w) {
  const auto rank = static_cast<size_t>(w.rank);
  RP_ASSIGN(const Dims pads, read_window(c, "pads", 2 * rank, 0, 0));
  for (size_t i = 0; i < rank; ++i) {
    w.pad_begin[3 - rank + i] = pads[i];
    w.pad_end[3 - rank + i] = pads[rank + i];
  }
  return {};
}

Result<std::string> read_auto_pad(const Call& c) {
  std::string mode = c.attrs.get_string("auto_pad", "NOTSET");
  if (mode == "NOTSET" || mode == "VALID" || mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    return mode;
  }
  return invalid_model("attribute 'auto_pad' is '" + mode +
                       "', must be NOTSET, VALID, SAME_UPPER or SAME_LOWER");
}

}  // namespace

Dims Window::output_dims(Dims lead) const {
  lead.insert(lead.end(), out.begin() + (3 - rank), out.end());
  return lead;
}

Result<Window> read_window(const Call& c, const Dims& x, std::span<const int64_t> kernel,
                           WindowUse use) {
  RP_ASSIGN(Window w, read_common(c, x, kernel));
  RP_ASSIGN(const std::string mode, read_auto_pad(c));
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (mode == "NOTSET") RP_TRY(read_pads(c, w));
  const bool ceil = c.attrs.get_int("ceil_mode", 0) != 0;
  // Another node may have padded an input without elements; the output then has none either.
  const bool empty = c.output_dims && std::ranges::count(*c.output_dims, 0) > 0;
  for (auto d = static_cast<size_t>(3 - w.rank); d < 3; ++d) {
    const int64_t stride = w.strides[d];
    if (same) {
      const int64_t out = (w.in[d] + stride - 1) / stride;
      const int64_t total = std::max<int64_t>(0, (out - 1) * stride + extent(w, d) - w.in[d]);
      w.pad_begin[d] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.pad_end[d] = total - w.pad_begin[d];
    }
    const int64_t room = w.in[d] + w.pad_begin[d] + w.pad_end[d] - extent(w, d);
    const bool pool = use == WindowUse::Pool;
    const bool rounds_up = pool && ceil && !same;
    w.out[d] = floor_div(rounds_up ? room + stride - 1 : room, stride) + 1;
    // Windows that begin in the padding after the input do not count.
    const int64_t starts = (w.in[d] + w.pad_begin[d] + stride - 1) / stride;
    if (rounds_up) w.out[d] = std::min(w.out[d], starts);
    const bool has_size = rounds_up ? w.out[d] >= 0 : room >= 0 || (pool && room > -2 * stride);
    if (w.in[d] == 0 || empty || has_size) {
      w.out[d] = std::max<int64_t>(w.out[d], 0);
    } else {
      return invalid_input("a window of " + std::to_string(extent(w, d)) +
                           " is larger than the padded input " + dims_str(x));
    }
  }
  return w;
}

Result<Window> read_transposed_window(const Call& c, const Dims& x,
                                      std::span<const int64_t> kernel) {
  RP_ASSIGN(Window w, read_common(c, x, kernel));
  RP_ASSIGN(const std::string mode, read_auto_pad(c));
  const auto rank = static_cast<size_t>(w.rank);
  RP_ASSIGN(const Dims extra, read_window(c, "output_padding", rank, 0, 0));
  if (mode == "NOTSET") RP_TRY(read_pads(c, w));
  const Dims wanted = c.attrs.get_ints("output_shape");
  if (!wanted.empty() && wanted.size() != rank && wanted.size() != rank + 2) {
    return invalid_model("attribute 'output_shape' " + dims_str(wanted) + " needs " +
                         std::to_string(rank) + " numbers");
  }
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  for (size_t i = 0; i < rank; ++i) {
    const size_t d = 3 - rank + i;
    const int64_t full = w.strides[d] * (w.in[d] - 1) + extra[i] + extent(w, d);
    if (same || !wanted.empty()) {
      w.out[d] = wanted.empty() ? w.in[d] * w.strides[d] : wanted[wanted.size() - rank + i];
      const int64_t total = std::clamp<int64_t>(full - w.out[d], 0, kMostWindow);
      w.pad_begin[d] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.pad_end[d] = total - w.pad_begin[d];
    } else {
      w.out[d] = full - w.pad_begin[d] - w.pad_end[d];
    }
    if (w.in[d] == 0) w.out[d] = std::max<int64_t>(w.out[d], 0);
    if (w.out[d] < 0) {
      return invalid_input("pads remove more than the result of " + dims_str(x) + " has");
    }
  }
  return w;
}

namespace {

/// Moves axis `from` of a tensor to position `to`; the others keep their order.
Result<HostTensor> move_axis(const HostTensor& t, size_t from, size_t to) {
  const auto moved = [&](Dims d) {
    const int64_t axis = d[from];
    d.erase(d.begin() + static_cast<std::ptrdiff_t>(from));
    d.insert(d.begin() + static_cast<std::ptrdiff_t>(to), axis);
    return d;
  };
  const Dims dims = moved(t.dims());
  RP_ASSIGN(auto out, allocate(t.dtype(), dims));
  copy_strided(dims, out, {strides_of(dims)}, t, {moved(strides_of(t.dims()))});
  return out;
}

}  // namespace

KernelResult with_layout(const Call& c, Kernel kernel) {
  if (c.attrs.get_int("channels_last", 0) == 0) return kernel(c);
  if (c.output_count != 1) return invalid_model("'channels_last' with several outputs");
  if (!has_input(c, 0)) return invalid_model("input 0 is missing");
  RP_TRY(require_rank(c, 0, "X", 3, 5));
  const size_t last = input(c, 0).dims().size() - 1;
  RP_ASSIGN(const HostTensor x, move_axis(input(c, 0), last, 1));
  std::vector<const HostTensor*> inputs(c.inputs.begin(), c.inputs.end());
  inputs[0] = &x;
  Call first = c;
  first.inputs = inputs;
  first.output_dims.reset();
  RP_ASSIGN(Tensors out, kernel(first));
  RP_ASSIGN(out[0], move_axis(out[0], 1, last));
  return out;
}

std::pair<int64_t, int64_t> inside(int64_t offset, int64_t stride, int64_t size, int64_t count) {
  const int64_t first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const int64_t last = size <= offset ? 0 : (size - offset + stride - 1) / stride;
  return {std::min(first, count), std::max(std::min(first, count), std::min(last, count))};
}

}  // namespace reprise::host
