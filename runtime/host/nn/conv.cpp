#include "runtime/host/nn/conv.h"

#include <algorithm>

#include "runtime/host/tables.h"

namespace reprise::host {

namespace {

/// The input of a convolution: channels of `x` from `offset` on, from whose values `zero` is
/// subtracted.
struct Image {
  const HostTensor& x;
  const Window& window;
  int64_t offset;
  double zero;
};

/// Writes the input values of the channel at `channel_at` for one kernel position and the output
/// pixels [begin, begin + count).
void unfold_line(const Image& image, int64_t channel_at, const Spatial& tap, int64_t begin,
                 int64_t count, double* out) {
  const Window& w = image.window;
  Spatial base;
  for (size_t d = 0; d < 3; ++d) base[d] = tap[d] * w.dilations[d] - w.pad_begin[d];
  const auto [x_first, x_last] = inside(base[2], w.strides[2], w.in[2], w.out[2]);
  for (int64_t i = 0; i < count;) {
    const int64_t pixel = begin + i;
    const int64_t ox = pixel % w.out[2];
    const int64_t oy = pixel / w.out[2] % w.out[1];
    const int64_t oz = pixel / w.out[2] / w.out[1];
    const int64_t run = std::min(count - i, w.out[2] - ox);
    const int64_t y = oy * w.strides[1] + base[1];
    const int64_t z = oz * w.strides[0] + base[0];
    const bool row_inside = y >= 0 && y < w.in[1] && z >= 0 && z < w.in[0];
    const int64_t first = row_inside ? std::clamp(x_first, ox, ox + run) : ox + run;
    const int64_t last = row_inside ? std::clamp(x_last, first, ox + run) : ox + run;
    std::fill(out + i, out + i + (first - ox), 0.0);
    const int64_t at_x = channel_at + (z * w.in[1] + y) * w.in[2] + first * w.strides[2] + base[2];
    double* to = out + i + (first - ox);
    load(image.x, at_x, w.strides[2], last - first, to);
    if (image.zero != 0) {
      for (int64_t k = 0; k < last - first; ++k) to[k] -= image.zero;
    }
    std::fill(to + (last - first), out + i + run, 0.0);
    i += run;
  }
}

PackBlock pack_unfolded(const Image& image) {
  return [image](const Block& block, double* out, int64_t out_stride) {
    const Window& w = image.window;
    const int64_t taps = w.kernel_count();
    for (int64_t k = 0; k < block.ks; ++k) {
      const int64_t channel = (block.k0 + k) / taps;
      const int64_t t = (block.k0 + k) % taps;
      const Spatial tap{t / (w.kernel[1] * w.kernel[2]), t / w.kernel[2] % w.kernel[1],
                        t % w.kernel[2]};
      unfold_line(image, image.offset + channel * w.in_count(), tap, block.begin, block.count,
                  out + k * out_stride);
    }
  };
}

Status check_bias(const Call& c, size_t i, int64_t outputs) {
  if (!has_input(c, i)) return {};
  if (input(c, i).dims() == Dims{outputs}) return {};
  return invalid_input(describe_input(c, i, "B") + ": must be [" + std::to_string(outputs) + "]");
}

KernelResult conv(const Call& c) {
  RP_TRY(check_arity(c, 2, 3));
  // int32 is allowed because the device forms of integer convolutions use it.
  if (input(c, 0).dtype() != DType::I32) RP_TRY(require_float(c, 0, "X"));
  RP_TRY(require_same_dtype(c, 0, 1));
  RP_ASSIGN(const ConvProblem p, conv_problem(c, input(c, 0), input(c, 1)));
  RP_TRY(check_bias(c, 2, p.outputs));
  RP_ASSIGN(auto y, allocate(input(c, 0).dtype(), p.out));
  if (y.count() == 0) return one(std::move(y));
  RP_ASSIGN(auto bias, allocate_scratch(Dims{p.outputs}));
  if (has_input(c, 2)) {
    RP_TRY(require_same_dtype(c, 0, 2));
    load(input(c, 2), 0, 1, p.outputs, bias.data());
  }
  const int64_t pixels = p.window.out_count();
  std::vector<double> line(static_cast<size_t>(std::min<int64_t>(pixels, kChunk)));
  convolve(p, input(c, 0), input(c, 1), 0, {},
           [&](int64_t n, int64_t m, int64_t first, int64_t count, const double* v) {
             for (int64_t i = 0; i < count; ++i) {
               line[static_cast<size_t>(i)] = v[i] + bias[static_cast<size_t>(m)];
             }
             store(y, (n * p.outputs + m) * pixels + first, count, line.data());
           });
  return one(std::move(y));
}

/// Adds the products of one (output channel, kernel tap) to the output image.
void fold_line(const Window& w, const Spatial& tap, int64_t first, int64_t count, const double* v,
               double* image) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t pixel = first + i;
    const Spatial in{pixel / w.in[2] / w.in[1], pixel / w.in[2] % w.in[1], pixel % w.in[2]};
    int64_t offset = 0;
    bool keep = true;
    for (size_t d = 0; d < 3; ++d) {
      const int64_t o = in[d] * w.strides[d] + tap[d] * w.dilations[d] - w.pad_begin[d];
      keep = keep && o >= 0 && o < w.out[d];
      offset = offset * w.out[d] + o;
    }
    if (keep) image[offset] += v[i];
  }
}

KernelResult conv_transpose(const Call& c) {
  RP_TRY(check_arity(c, 2, 3));
  RP_TRY(require_float(c, 0, "X"));
  RP_TRY(require_same_dtype(c, 0, 1));
  const HostTensor& x = input(c, 0);
  const HostTensor& weights = input(c, 1);
  RP_TRY(require_rank(c, 0, "X", 3, 5));
  RP_TRY(require_rank(c, 1, "W", x.rank(), x.rank()));
  const int64_t group = c.attrs.get_int("group", 1);
  const int64_t channels = x.dims()[1];
  if (group < 1 || weights.dims()[0] != channels || channels % group != 0) {
    return invalid_input("X " + dims_str(x.dims()) + " and W " + dims_str(weights.dims()) +
                         " do not fit with group " + std::to_string(group));
  }
  const Dims kernel =
      c.attrs.get_ints("kernel_shape", Dims(weights.dims().begin() + 2, weights.dims().end()));
  if (!std::equal(kernel.begin(), kernel.end(), weights.dims().begin() + 2, weights.dims().end())) {
    return invalid_model("attribute 'kernel_shape' " + dims_str(kernel) + " differs from W " +
                         dims_str(weights.dims()));
  }
  RP_ASSIGN(const Window w, read_transposed_window(c, x.dims(), kernel));
  const int64_t per_group = weights.dims()[1];
  const int64_t outputs = product(Dims{per_group, group});
  RP_TRY(check_bias(c, 2, outputs));
  RP_ASSIGN(auto y, allocate(x.dtype(), w.output_dims({x.dims()[0], outputs})));
  if (y.count() == 0) return one(std::move(y));
  const int64_t taps = w.kernel_count();
  RP_ASSIGN(auto image, allocate_scratch(Dims{per_group, w.out[0], w.out[1], w.out[2]}));
  const int64_t in_group = channels / group;
  for (int64_t n = 0; n < x.dims()[0]; ++n) {
    for (int64_t g = 0; g < group; ++g) {
      for (int64_t m = 0; m < per_group; ++m) {
        double b = 0;
        if (has_input(c, 2)) load(input(c, 2), g * per_group + m, 1, 1, &b);
        std::fill_n(image.begin() + m * w.out_count(), w.out_count(), b);
      }
      gemm(per_group * taps, w.in_count(), in_group,
           pack_strided(weights, g * in_group * per_group * taps, 1, per_group * taps),
           pack_strided(x, (n * channels + g * in_group) * w.in_count(), 1, w.in_count()),
           [&](int64_t row, int64_t first, int64_t count, const double* v) {
             const int64_t t = row % taps;
             const Spatial tap{t / (w.kernel[1] * w.kernel[2]), t / w.kernel[2] % w.kernel[1],
                               t % w.kernel[2]};
             fold_line(w, tap, first, count, v, image.data() + row / taps * w.out_count());
           });
      store(y, (n * outputs + g * per_group) * w.out_count(), per_group * w.out_count(),
            image.data());
    }
  }
  return one(std::move(y));
}

}  // namespace

Result<ConvProblem> conv_problem(const Call& c, const HostTensor& x, const HostTensor& w) {
  ConvProblem p;
  if (x.rank() < 3 || x.rank() > 5 || w.rank() != x.rank()) {
    return invalid_input("X " + dims_str(x.dims()) + " and W " + dims_str(w.dims()) +
                         " must both have rank 3 to 5");
  }
  p.batch = x.dims()[0];
  p.channels = x.dims()[1];
  p.outputs = w.dims()[0];
  p.group = c.attrs.get_int("group", 1);
  if (p.group < 1 || p.channels % p.group != 0 || p.outputs % p.group != 0 ||
      p.channels / p.group != w.dims()[1]) {
    return invalid_input("X " + dims_str(x.dims()) + " and W " + dims_str(w.dims()) +
                         " do not fit with group " + std::to_string(p.group));
  }
  const Dims kernel(w.dims().begin() + 2, w.dims().end());
  if (c.attrs.get_ints("kernel_shape", kernel) != kernel) {
    return invalid_model("attribute 'kernel_shape' " + dims_str(c.attrs.get_ints("kernel_shape")) +
                         " differs from W " + dims_str(w.dims()));
  }
  RP_ASSIGN(p.window, read_window(c, x.dims(), kernel, WindowUse::Conv));
  p.out = p.window.output_dims({p.batch, p.outputs});
  return p;
}

void convolve(const ConvProblem& p, const HostTensor& x, const HostTensor& w, double x_zero,
              std::span<const double> w_zero, const StorePixels& store) {
  const int64_t in_group = p.channels / p.group;
  const int64_t out_group = p.outputs / p.group;
  const int64_t depth = in_group * p.window.kernel_count();
  for (int64_t n = 0; n < p.batch; ++n) {
    for (int64_t g = 0; g < p.group; ++g) {
      const auto zeros = w_zero.size() <= 1 ? w_zero
                                            : w_zero.subspan(static_cast<size_t>(g * out_group),
                                                             static_cast<size_t>(out_group));
      gemm(out_group, p.window.out_count(), depth,
           pack_strided(w, g * out_group * depth, depth, 1, zeros),
           pack_unfolded(
               {x, p.window, (n * p.channels + g * in_group) * p.window.in_count(), x_zero}),
           [&](int64_t m, int64_t first, int64_t count, const double* v) {
             store(n, g * out_group + m, first, count, v);
           });
    }
  }
}

Table conv_table() {
  static constexpr Entry kTable[] = {{"Conv", [](const Call& c) { return with_layout(c, conv); }},
                                     {"ConvTranspose", conv_transpose}};
  return kTable;
}

}  // namespace reprise::host
