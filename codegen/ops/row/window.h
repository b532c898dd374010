// Sliding windows of convolutions and pools: attributes, pads and output sizes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "codegen/ops/row/op.h"
#include "codegen/ops/row/op_builder.h"

namespace reprise::ops {

/// The axes of the input and output of a convolution or pool: [N, C, spatial...] or, with the core
/// form's attribute `channels_last`, [N, spatial..., C].
struct DataAxes {
  size_t channel = 1;
  size_t spatial = 2;  // the first spatial axis
  /// Builds a shape or an index in this order.
  std::vector<Expr> arrange(const Expr& batch, const Expr& channel_at,
                            std::span<const Expr> spatial_at) const;
};
bool is_channels_last(const graph::Node& n);
DataAxes data_axes(const graph::Node& n, size_t rank);

struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<Expr> begin, end;  // pads per spatial dim
  Shape in, out;                 // spatial dims
  size_t rank() const { return kernel.size(); }
  /// (kernel - 1) * dilation + 1
  int64_t extent(size_t d) const { return (kernel[d] - 1) * dilations[d] + 1; }
  bool static_pads() const;
};

enum class WindowUse : uint8_t { Conv, Pool };

/// Reads strides, dilations, pads, auto_pad and ceil_mode, which apply to input 0.
Result<Window> read_window(const InferContext& ctx, std::vector<int64_t> kernel, WindowUse use);
/// The begins and then the ends. Requires static_pads().
std::vector<int64_t> pad_ints(const Window& w);
/// The attributes of the core form.
AttrMap window_attrs(const Window& w);
/// Reads a list with one entry per spatial dim, each in [lowest, 2^31).
Result<std::vector<int64_t>> spatial_ints(const InferContext& ctx, const char* name, size_t count,
                                          int64_t fallback, int64_t lowest);
Status check_auto_pad(const InferContext& ctx);
/// The spatial dims of a weight [M, C, k...], which must be static.
Result<std::vector<int64_t>> kernel_of_weight(const InferContext& ctx, size_t input);

/// How kernels compute a convolution with a constant weight.
enum class ConvForm {
  Gemm,       // an implicit GEMM for each group
  Depthwise,  // each channel separately
  Grouped,    // groups with few output channels
};
/// `in` and `out` are the numbers of channels in a group.
ConvForm conv_form(int64_t group, int64_t in, int64_t out);

/// Writes the core form of a convolution, without bias.
graph::ValueId core_conv(OpBuilder& c, graph::ValueId x, graph::ValueId weight, Window w,
                         int64_t group);

}  // namespace reprise::ops
