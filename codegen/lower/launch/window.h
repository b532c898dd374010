// The parameters of convolutions, and where the window of an output lies in the input.
#pragma once

#include "codegen/lower/launch/lowered.h"
#include "codegen/ops/row/window.h"

namespace reprise::lower {

struct ConvParams {
  std::vector<int64_t> strides, pads, dilations, kernel;
  ops::DataAxes axes;  // of the input and the output
  int64_t group = 1;
  int64_t in_channels = 0;   // per group
  int64_t out_channels = 0;  // per group

  int64_t positions() const {
    int64_t n = 1;
    for (int64_t k : kernel) n *= k;
    return n;
  }
  bool channels_last() const { return axes.channel != 1; }
  /// The spatial coordinates of an index into the input or the output.
  std::span<const Expr> spatial(const Index& at) const {
    return std::span(at).subspan(axes.spatial, kernel.size());
  }
};

struct InputPosition {
  Index index;
  kernel::Val inside;  // false in the padding, where the index is clamped; null: always inside
};

/// Finds the input element under a position of the kernel.
class Windows {
 public:
  /// `past_end`: whether output coordinates along the last axis may lie past the end.
  Windows(Evaluator& ev, const Shape& input, const Shape& output, const ConvParams& p,
          bool past_end)
      : ev_(ev), input_(input), output_(output), p_(p), past_end_(past_end) {}

  /// `pixel`: batch and spatial coordinates of the output.
  InputPosition input(const Index& pixel, const std::vector<Expr>& kernel, const Expr& channel);

 private:
  struct Coordinate {
    Expr index;
    kernel::Val inside;
  };
  Coordinate coordinate(const Expr& out, size_t axis, const Expr& kernel);
  /// Whether positions along the axis may be in the padding.
  bool needs_clamp(size_t axis) const;
  /// 1, or 0 if one of the axes before `end` is empty in a run: all positions are padding then, and
  /// the buffer has no element but the first that a clamped address may read.
  Expr present(size_t end) const;

  Evaluator& ev_;
  const Shape& input_;
  const Shape& output_;
  const ConvParams& p_;
  bool past_end_;
};

/// Lowers convolutions of groups with few output channels. With channels last, groups must have a
/// single channel, and their number must be a multiple of 4.
Result<Lowered> lower_depthwise(const graph::Graph& g, const Group& group,
                                const TargetFacts& target, const ConvParams& params, size_t choice);

}  // namespace reprise::lower
