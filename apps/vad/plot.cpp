#include "apps/vad/plot.h"

#include <algorithm>

#include "apps/samples/sound_plot.h"
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

  void draw_sound(const Sound& sound) {
    samples::draw_sound(svg, "sound", sound, {kLeft, kSoundTop, kWidth, kSoundHeight});
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

  void draw_axis() { samples::draw_seconds(svg, "axis", duration_, kLeft, kBottom, kWidth); }

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
  plot.draw_sound(sound);
  plot.draw_probabilities(probabilities, window, threshold);
  plot.draw_axis();
  return plot.svg.save(path);
}

}  // namespace vad
