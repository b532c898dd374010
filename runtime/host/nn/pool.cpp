// Pooling over windows and over whole images.
#include <algorithm>

#include "runtime/host/nn/window.h"
#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

Result<Window> pool_window(const Call& c, const HostTensor& x) {
  if (!c.attrs.has("kernel_shape")) return invalid_model("attribute 'kernel_shape' is missing");
  const Dims kernel = c.attrs.get_ints("kernel_shape");
  RP_ASSIGN(const Window w, read_window(c, x.dims(), kernel, WindowUse::Pool));
  for (size_t d = 0; d < 3; ++d) {
    const int64_t extent = (w.kernel[d] - 1) * w.dilations[d] + 1;
    if (std::max(w.pad_begin[d], w.pad_end[d]) >= extent) {
      return invalid_model("a padding as large as the window leaves windows without any input");
    }
  }
  return w;
}

/// The taps of one output position along one axis: the input coordinates first, first + step, ...
struct WindowTaps {
  int64_t first = 0, step = 1, count = 0;  // those inside the input
  int64_t padded = 0;                      // number of taps inside the input or its padding
};

WindowTaps taps_of(const Window& w, size_t d, int64_t out) {
  const int64_t start = out * w.strides[d] - w.pad_begin[d];
  const auto [lo, hi] = inside(start, w.dilations[d], w.in[d], w.kernel[d]);
  const auto [plo, phi] = inside(start + w.pad_begin[d], w.dilations[d],
                                 w.in[d] + w.pad_begin[d] + w.pad_end[d], w.kernel[d]);
  return {start + lo * w.dilations[d], w.dilations[d], hi - lo, phi - plo};
}

/// Calls f(output pixel, taps) for every output position.
template <typename F>
void for_each_window(const Window& w, F f) {
  int64_t pixel = 0;
  for (int64_t z = 0; z < w.out[0]; ++z) {
    for (int64_t y = 0; y < w.out[1]; ++y) {
      for (int64_t x = 0; x < w.out[2]; ++x) {
        f(pixel++, std::array<WindowTaps, 3>{taps_of(w, 0, z), taps_of(w, 1, y), taps_of(w, 2, x)});
      }
    }
  }
}

/// Calls f(input pixel) for every tap inside the input.
template <typename F>
void for_each_tap(const Window& w, const std::array<WindowTaps, 3>& t, F f) {
  for (int64_t i = 0; i < t[0].count; ++i) {
    for (int64_t j = 0; j < t[1].count; ++j) {
      const int64_t row =
          ((t[0].first + i * t[0].step) * w.in[1] + t[1].first + j * t[1].step) * w.in[2];
      for (int64_t k = 0; k < t[2].count; ++k) f(row + t[2].first + k * t[2].step);
    }
  }
}

Status require_poolable(const Call& c) {
  RP_TRY(require_rank(c, 0, "X", 3, 5));
  const DType t = input(c, 0).dtype();
  if (is_float(t) || (is_int(t) && size_of(t) <= 4)) return {};
  return wrong_dtype(c, 0, "X", "floats and integers of at most 32 bits");
}

/// A position for the Indices output, counted over the whole tensor. Either rows or columns of the
/// image vary fastest. A window outside the image has pixel -1.
int64_t flat_index(const Window& w, int64_t image, int64_t pixel, bool column_major) {
  if (!column_major || pixel < 0) return image * w.in_count() + pixel;
  const int64_t x = pixel % w.in[2];
  const int64_t y = pixel / w.in[2] % w.in[1];
  const int64_t z = pixel / w.in[2] / w.in[1];
  if (w.rank == 1) return image * w.in_count() + x;
  if (w.rank == 2) return image * w.in_count() + x * w.in[1] + y;
  return image * w.in_count() + (x * w.in[1] + y) * w.in[0] + z;
}

KernelResult max_pool(const Call& c) {
  RP_TRY(check_arity(c, 1, 1, 2));
  RP_TRY(require_poolable(c));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(const Window w, pool_window(c, x));
  const bool column_major = c.attrs.get_int("storage_order", 0) != 0;
  const Dims dims = w.output_dims({x.dims()[0], x.dims()[1]});
  RP_ASSIGN(auto y, allocate(x.dtype(), dims));
  RP_ASSIGN(auto indices, allocate(DType::I64, c.output_count > 1 ? dims : Dims{0}));
  std::vector<double> image(static_cast<size_t>(y.count() == 0 ? 0 : w.in_count()));
  std::vector<double> result(static_cast<size_t>(y.count() == 0 ? 0 : w.out_count()));
  const int64_t images = y.count() == 0 ? 0 : x.dims()[0] * x.dims()[1];
  for (int64_t n = 0; n < images; ++n) {
    load(x, n * w.in_count(), 1, w.in_count(), image.data());
    for_each_window(w, [&](int64_t pixel, const std::array<WindowTaps, 3>& taps) {
      double best = -std::numeric_limits<double>::infinity();
      int64_t best_at = -1;
      for_each_tap(w, taps, [&](int64_t i) {
        const double v = image[static_cast<size_t>(i)];
        if (best_at < 0 || v > best || (std::isnan(v) && !std::isnan(best))) {
          best = v;
          best_at = i;
        }
      });
      result[static_cast<size_t>(pixel)] = best;
      if (indices.count() > 0) {
        set_element<int64_t>(indices, n * w.out_count() + pixel,
                             flat_index(w, n, best_at, column_major));
      }
    });
    store(y, n * w.out_count(), w.out_count(), result.data());
  }
  Tensors out;
  out.push_back(std::move(y));
  if (c.output_count > 1) out.push_back(std::move(indices));
  return out;
}

/// AveragePool and LpPool: a sum over each window, then `finish(sum, taps)`.
template <typename Term, typename Finish>
KernelResult sum_pool(const Call& c, Term term, Finish finish) {
  RP_TRY(check_arity(c, 1, 1));
  RP_TRY(require_rank(c, 0, "X", 3, 5));
  RP_TRY(require_float(c, 0, "X"));
  const HostTensor& x = input(c, 0);
  RP_ASSIGN(const Window w, pool_window(c, x));
  RP_ASSIGN(auto y, allocate(x.dtype(), w.output_dims({x.dims()[0], x.dims()[1]})));
  if (y.count() == 0) return one(std::move(y));
  std::vector<double> image(static_cast<size_t>(w.in_count()));
  std::vector<double> result(static_cast<size_t>(w.out_count()));
  for (int64_t n = 0; n < x.dims()[0] * x.dims()[1]; ++n) {
    load(x, n * w.in_count(), 1, w.in_count(), image.data());
    for_each_window(w, [&](int64_t pixel, const std::array<WindowTaps, 3>& taps) {
      double sum = 0;
      for_each_tap(w, taps, [&](int64_t i) { sum += term(image[static_cast<size_t>(i)]); });
      result[static_cast<size_t>(pixel)] = finish(sum, taps);
    });
    store(y, n * w.out_count(), w.out_count(), result.data());
  }
  return one(std::move(y));
}

KernelResult average_pool(const Call& c) {
  const bool include_pad = c.attrs.get_int("count_include_pad", 0) != 0;
  return sum_pool(
      c, [](double v) { return v; },
      [&](double sum, const std::array<WindowTaps, 3>& t) {
        int64_t divisor = 1;
        for (const WindowTaps& axis : t) divisor *= include_pad ? axis.padded : axis.count;
        return sum / static_cast<double>(divisor);
      });
}

/// The norm of values whose powers have that sum. Powers below the range of fp32 are 0, as on
/// devices and in ONNX Runtime.
double norm_of(double sum, double p, DType dtype) {
  const double smallest = dtype == DType::F64
                              ? std::numeric_limits<double>::min()
                              : static_cast<double>(std::numeric_limits<float>::min());
  return p != 1 && sum < smallest ? 0 : std::pow(sum, 1 / p);
}

KernelResult lp_pool(const Call& c) {
  const auto p = static_cast<double>(c.attrs.get_int("p", 2));
  RP_TRY(check_arity(c, 1, 1));
  const DType dtype = input(c, 0).dtype();
  return sum_pool(
      c, [&](double v) { return std::pow(std::fabs(v), p); },
      [&](double sum, const std::array<WindowTaps, 3>&) { return norm_of(sum, p, dtype); });
}

KernelResult global_pool(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  RP_TRY(require_rank(c, 0, "X", 2, std::numeric_limits<int64_t>::max()));
  RP_TRY(require_float(c, 0, "X"));
  const HostTensor& x = input(c, 0);
  Dims dims(x.dims().size(), 1);
  dims[0] = x.dims()[0];
  dims[1] = x.dims()[1];
  RP_ASSIGN(auto y, allocate(x.dtype(), dims));
  const int64_t size = product_range(x.dims(), 2, x.rank());
  const auto p = static_cast<double>(c.attrs.get_int("p", 2));
  std::array<double, kChunk> buffer;
  for (int64_t n = 0; n < y.count(); ++n) {
    double acc = c.op == "GlobalMaxPool" ? -std::numeric_limits<double>::infinity() : 0;
    for (int64_t i = 0; i < size; i += kChunk) {
      const int64_t count = std::min(kChunk, size - i);
      load(x, n * size + i, 1, count, buffer.data());
      for (size_t k = 0; k < static_cast<size_t>(count); ++k) {
        if (c.op == "GlobalMaxPool") {
          acc = std::isnan(acc) || acc > buffer[k] ? acc : buffer[k];
        } else {
          acc += c.op == "GlobalLpPool" ? std::pow(std::fabs(buffer[k]), p) : buffer[k];
        }
      }
    }
    if (c.op == "GlobalAveragePool") acc /= static_cast<double>(size);
    if (c.op == "GlobalLpPool") acc = norm_of(acc, p, x.dtype());
    store(y, n, 1, &acc);
  }
  return one(std::move(y));
}

/// The inverse of MaxPool: writes values at their indices, and zeros elsewhere.
KernelResult max_unpool(const Call& c) {
  RP_TRY(check_arity(c, 2, 3));
  RP_TRY(require_float(c, 0, "X"));
  RP_TRY(require_rank(c, 0, "X", 3, 5));
  const HostTensor& x = input(c, 0);
  if (input(c, 1).dims() != x.dims()) return invalid_input("X and I have different shapes");
  RP_ASSIGN(const Dims indices, tensor_ints(input(c, 1), "input 1 (I)"));
  const auto rank = static_cast<size_t>(x.rank() - 2);
  const Dims kernel = c.attrs.get_ints("kernel_shape");
  const Dims strides = c.attrs.get_ints("strides", Dims(rank, 1));
  const Dims pads = c.attrs.get_ints("pads", Dims(2 * rank, 0));
  if (kernel.size() != rank || strides.size() != rank || pads.size() != 2 * rank) {
    return invalid_model("kernel_shape, strides and pads do not fit X " + dims_str(x.dims()));
  }
  Dims dims(x.dims().begin(), x.dims().begin() + 2);
  constexpr int64_t kLimit = int64_t{1} << 31;
  for (size_t d = 0; d < rank; ++d) {
    if (std::max({kernel[d], strides[d], pads[d], pads[rank + d], x.dims()[2 + d]}) >= kLimit ||
        std::min({kernel[d], strides[d]}) < 1 || std::min(pads[d], pads[rank + d]) < 0) {
      return invalid_model("kernel_shape, strides or pads are out of range");
    }
    dims.push_back((x.dims()[2 + d] - 1) * strides[d] + kernel[d] - pads[d] - pads[rank + d]);
  }
  RP_ASSIGN(auto y, allocate(x.dtype(), dims));
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t to = at(indices, i);
    if (to < 0 || to >= y.count()) {
      return invalid_input("index " + std::to_string(to) + " is out of range for the result " +
                           dims_str(dims));
    }
    copy_block(y, to, x, i, 1);
  }
  if (!has_input(c, 2)) return one(std::move(y));
  // Indices refer to the inferred shape. A given output_shape adds zeros around it.
  RP_ASSIGN(const Dims wanted, read_ints(c, "output_shape", 2));
  bool fits = wanted.size() == dims.size();
  for (size_t d = 0; fits && d < dims.size(); ++d) fits = wanted[d] >= dims[d];
  if (!fits) {
    return invalid_input("output_shape " + dims_str(wanted) + " does not hold the result " +
                         dims_str(dims));
  }
  RP_ASSIGN(auto padded, allocate(x.dtype(), wanted));
  copy_strided(dims, padded, {strides_of(wanted)}, y, {strides_of(dims)});
  return one(std::move(padded));
}

}  // namespace

Table pool_table() {
  static constexpr Entry kTable[] = {
      {"MaxPool", [](const Call& c) { return with_layout(c, max_pool); }},
      {"AveragePool", [](const Call& c) { return with_layout(c, average_pool); }},
      {"LpPool", lp_pool},
      {"GlobalAveragePool", global_pool},
      {"GlobalMaxPool", global_pool},
      {"GlobalLpPool", global_pool},
      {"MaxUnpool", max_unpool},
  };
  return kTable;
}

}  // namespace reprise::host
