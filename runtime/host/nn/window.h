// Sliding windows of convolutions and pools. 1 to 3 spatial dims are represented as 3.
#pragma once

#include "runtime/host/support.h"

namespace reprise::host {

using Spatial = std::array<int64_t, 3>;

struct Window {
  int64_t rank = 0;  // spatial dims of the model; the leading 3 - rank are 1
  Spatial in{1, 1, 1}, kernel{1, 1, 1}, strides{1, 1, 1}, dilations{1, 1, 1};
  Spatial pad_begin{0, 0, 0}, pad_end{0, 0, 0}, out{1, 1, 1};

  int64_t in_count() const { return in[0] * in[1] * in[2]; }
  int64_t kernel_count() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t out_count() const { return out[0] * out[1] * out[2]; }
  /// The model's output dims: {lead..., spatial...}.
  Dims output_dims(Dims lead) const;
};

enum class WindowUse : uint8_t { Conv, Pool };

/// Reads the attributes strides, dilations, pads, auto_pad and ceil_mode of a convolution or pool
/// over x [N, C, spatial...] and computes the window, including `out`. A window that is larger than
/// the padded input is an error, with two exceptions: a pool in ceil mode clips it, and any other
/// pool whose window is larger by less than two strides has an empty result.
Result<Window> read_window(const Call& c, const Dims& x, std::span<const int64_t> kernel,
                           WindowUse use);
/// The same for a transposed convolution, which also has output_shape and output_padding.
Result<Window> read_transposed_window(const Call& c, const Dims& x,
                                      std::span<const int64_t> kernel);

/// Calls a kernel whose input and result are [N, C, spatial...]. If the attribute `channels_last`
/// of the core form is set, the input and result of the call are [N, spatial..., C] and are
/// transposed.
KernelResult with_layout(const Call& c, Kernel kernel);

/// The range [first, last) of i in [0, count) for which i * stride + offset is in [0, size).
std::pair<int64_t, int64_t> inside(int64_t offset, int64_t stride, int64_t size, int64_t count);

}  // namespace reprise::host
