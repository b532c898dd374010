// The positions and weights from which Resize computes an element, along one axis. The host kernel
// and the tables of antialiasing kernels share them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::resample {

enum class Mode : uint8_t { Nearest, Linear, Cubic };
enum class Coordinates : uint8_t {
  HalfPixel,
  HalfPixelSymmetric,
  PytorchHalfPixel,
  AlignCorners,
  Asymmetric,
  TfHalfPixelForNearest,
  TfCropAndResize
};

/// By the names of ONNX. Nothing for others.
std::optional<Mode> mode_of(std::string_view name);
std::optional<Coordinates> coordinates_of(std::string_view name);

struct Options {
  Mode mode = Mode::Nearest;
  Coordinates coordinates = Coordinates::HalfPixel;
  std::string nearest = "round_prefer_floor";
  double cubic_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
  double extrapolation = 0;
};

struct Axis {
  int64_t in = 0, out = 0;
  double scale = 1, roi_begin = 0, roi_end = 1;
};

/// The weighted inputs of one output position. If `outside` is set, the result is the extrapolation
/// value.
struct Taps {
  std::vector<std::pair<int64_t, double>> weights;
  bool outside = false;
};

/// `a.in` is positive.
Taps taps_of(const Options& o, const Axis& a, int64_t i);

}  // namespace reprise::resample
