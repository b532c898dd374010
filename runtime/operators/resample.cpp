#include "runtime/operators/resample.h"

#include <algorithm>
#include <cmath>

namespace reprise::resample {

namespace {

template <typename T>
std::optional<T> by_name(std::string_view name,
                         const std::vector<std::pair<std::string_view, T>>& all) {
  for (const auto& [known, value] : all)
    if (known == name) return value;
  return std::nullopt;
}

/// Positions beyond any tensor are all the same.
int64_t whole(double v) {
  constexpr double kFar = 0x1p62;
  return std::isnan(v) ? 0 : static_cast<int64_t>(std::clamp(v, -kFar, kFar));
}

double source_coordinate(const Options& o, const Axis& a, int64_t i) {
  const auto x = static_cast<double>(i);
  const auto in = static_cast<double>(a.in);
  const auto out = static_cast<double>(a.out);
  switch (o.coordinates) {
    case Coordinates::HalfPixel:
      return (x + 0.5) / a.scale - 0.5;
    case Coordinates::HalfPixelSymmetric: {
      const double adjustment = out / (a.scale * in);
      return in / 2 * (1 - adjustment) + (x + 0.5) / a.scale - 0.5;
    }
    case Coordinates::PytorchHalfPixel:
      return a.out > 1 ? (x + 0.5) / a.scale - 0.5 : 0;
    case Coordinates::AlignCorners:
      return a.out > 1 ? x * (in - 1) / (out - 1) : 0;
    case Coordinates::Asymmetric:
      return x / a.scale;
    case Coordinates::TfHalfPixelForNearest:
      // Axes that keep their size, such as batch and channels, are copied.
      return a.scale == 1 ? x : (x + 0.5) / a.scale;
    case Coordinates::TfCropAndResize:
      return a.out > 1
                 ? a.roi_begin * (in - 1) + x * (a.roi_end - a.roi_begin) * (in - 1) / (out - 1)
                 : 0.5 * (a.roi_begin + a.roi_end) * (in - 1);
  }
  return x;
}

int64_t nearest_index(const Options& o, double x) {
  if (o.nearest == "floor") return whole(std::floor(x));
  if (o.nearest == "ceil") return whole(std::ceil(x));
  const bool half = x - std::floor(x) == 0.5;
  if (half) return whole(o.nearest == "round_prefer_floor" ? std::floor(x) : std::ceil(x));
  return whole(std::round(x));
}

double cubic_weight(double a, double t) {
  t = std::fabs(t);
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

}  // namespace

std::optional<Mode> mode_of(std::string_view name) {
  return by_name<Mode>(name, {{"nearest", Mode::Nearest},
                              {"linear", Mode::Linear},
                              {"bilinear", Mode::Linear},
                              {"cubic", Mode::Cubic}});
}

std::optional<Coordinates> coordinates_of(std::string_view name) {
  return by_name<Coordinates>(name, {{"half_pixel", Coordinates::HalfPixel},
                                     {"half_pixel_symmetric", Coordinates::HalfPixelSymmetric},
                                     {"pytorch_half_pixel", Coordinates::PytorchHalfPixel},
                                     {"align_corners", Coordinates::AlignCorners},
                                     {"asymmetric", Coordinates::Asymmetric},
                                     {"tf_half_pixel_for_nn", Coordinates::TfHalfPixelForNearest},
                                     {"tf_crop_and_resize", Coordinates::TfCropAndResize}});
}

Taps taps_of(const Options& o, const Axis& a, int64_t i) {
  Taps taps;
  // fp32 scales and this arithmetic are slightly inexact if the position is an integer or half way
  // between two. Devices compute it exactly, as a quotient.
  double x = source_coordinate(o, a, i);
  const double half = std::round(2 * x) / 2;
  if (std::fabs(x - half) < 1e-6) x = half;
  if (o.coordinates == Coordinates::TfCropAndResize &&
      !(x >= 0 && x <= static_cast<double>(a.in - 1))) {
    taps.outside = true;
    return taps;
  }
  const auto clamp = [&](int64_t k) { return std::clamp<int64_t>(k, 0, a.in - 1); };
  if (o.mode == Mode::Nearest) {
    taps.weights.push_back({clamp(nearest_index(o, x)), 1.0});
    return taps;
  }
  // Antialiasing widens the filter by the downscaling factor.
  const double stretch = o.antialias ? std::max(1.0, 1 / a.scale) : 1.0;
  const double radius = (o.mode == Mode::Linear ? 1 : 2) * stretch;
  // Without antialiasing, the number of taps is always the width of the filter. Elements with
  // weight 0 are multiplied as well, so that an infinity gives NaN, as on devices and in ONNX
  // Runtime.
  const int64_t width = o.mode == Mode::Linear ? 2 : 4;
  const int64_t first =
      o.antialias ? whole(std::floor(x - radius)) + 1 : whole(std::floor(x)) + 1 - width / 2;
  const int64_t last = o.antialias ? whole(std::ceil(x + radius)) - 1 : first + width - 1;
  double sum = 0;
  for (int64_t k = first; k <= last; ++k) {
    const double t = (static_cast<double>(k) - x) / stretch;
    const double w =
        o.mode == Mode::Linear ? std::max(0.0, 1 - std::fabs(t)) : cubic_weight(o.cubic_a, t);
    if (o.exclude_outside && (k < 0 || k >= a.in)) continue;
    taps.weights.push_back({clamp(k), w});
    sum += w;
  }
  for (auto& [k, w] : taps.weights) w /= sum;
  return taps;
}

}  // namespace reprise::resample
