#include "apps/vad/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "apps/samples/svg.h"

namespace vad {
namespace {

using samples::Svg;

constexpr double kLeft = 56, kWidth = 840, kRight = 12;
constexpr double kSoundTop = 14, kSoundHeight = 120, kProbabilityTop = 150, kProbabilityHeight = 90;
constexpr double kBottom = kProbabilityTop + kProbabilityHeight;

constexpr const char* kStyle =
    ".speech{fill:#cfe8cf}.sound{stroke:#4a6a8a;stroke-width:.6}"
    ".probability{stroke:#c0392b;stroke-width:1.3}"
    ".threshold{stroke:#999;stroke-dasharray:4 4}.axis{stroke:#444}";

class Plot {
 public:
  explicit Plot(double duration) : duration_(std::max(duration, 1e-3)) {}

  void shade(const std::vector<Segment>& segments) {
    for (const Segment& s : segments)
      svg.rectangle("speech", x(s.begin), kSoundTop, x(s.end) - x(s.begin), kBottom - kSoundTop);
  }

  /// The highest and lowest sample below each half of a pixel.
  void draw_sound(const Sound& sound) {
    const size_t columns = static_cast<size_t>(2 * kWidth);
    const float loudest = std::max(
        1e-6F,
        std::abs(*std::max_element(sound.samples.begin(), sound.samples.end(),
                                   [](float a, float b) { return std::abs(a) < std::abs(b); })));
    const double middle = kSoundTop + kSoundHeight / 2;
    std::string path;
    for (size_t c = 0; c < columns; ++c) {
      const size_t begin = sound.samples.size() * c / columns;
      const size_t end = std::max(begin + 1, sound.samples.size() * (c + 1) / columns);
      if (begin >= sound.samples.size()) break;
      const auto [low, high] = std::minmax_element(
          sound.samples.begin() + static_cast<std::ptrdiff_t>(begin),
          sound.samples.begin() + static_cast<std::ptrdiff_t>(std::min(end, sound.samples.size())));
      const auto y = [&](float v) {
        return Svg::number(middle - static_cast<double>(v / loudest) * kSoundHeight / 2);
      };
      path +=
          "M" + Svg::number(kLeft + static_cast<double>(c) / 2) + " " + y(*low) + "V" + y(*high);
    }
    svg.path("sound", path);
  }

  void draw_probabilities(const std::vector<float>& probabilities, double window, float threshold) {
    const auto y = [](float p) { return kBottom - static_cast<double>(p) * kProbabilityHeight; };
    svg.path("threshold", across(y(threshold)));
    std::string path;
    for (size_t i = 0; i < probabilities.size(); ++i) {
      const double time = std::min((static_cast<double>(i) + 0.5) * window, duration_);
      path += (i ? "L" : "M") + Svg::number(x(time)) + " " + Svg::number(y(probabilities[i]));
    }
    svg.path("probability", path);
    svg.text(kLeft - 6, y(1) + 8, "end", "1");
    svg.text(kLeft - 6, y(0), "end", "0");
    svg.text(kLeft - 6, y(0.5F) + 4, "end", "speech");
  }

  void draw_axis() {
    svg.path("axis", across(kBottom));
    const double step = samples::step_of_marks(duration_);
    for (int i = 0; step * i <= duration_ * 1.0001; ++i) {
      char label[32];
      std::snprintf(label, sizeof label, "%g s", step * i);
      svg.path("axis", "M" + Svg::number(x(step * i)) + " " + Svg::number(kBottom) + "v5");
      svg.text(x(step * i), kBottom + 18, "middle", label);
    }
  }

  Svg svg{kLeft + kWidth + kRight, kBottom + 26, kStyle};

 private:
  double x(double time) const { return kLeft + time / duration_ * kWidth; }
  static std::string across(double y) {
    return "M" + Svg::number(kLeft) + " " + Svg::number(y) + "h" + Svg::number(kWidth);
  }

  double duration_;
};

}  // namespace

Error write_plot(const Sound& sound, const std::vector<float>& probabilities, double window,
                 const std::vector<Segment>& segments, float threshold, const std::string& path) {
  Plot plot(static_cast<double>(sound.samples.size()) / sound.rate);
  plot.shade(segments);
  if (!sound.samples.empty()) plot.draw_sound(sound);
  plot.draw_probabilities(probabilities, window, threshold);
  plot.draw_axis();
  return plot.svg.save(path);
}

}  // namespace vad
