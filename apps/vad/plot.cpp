#include "apps/vad/plot.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace vad {
namespace {

constexpr double kLeft = 56, kWidth = 840, kRight = 12;
constexpr double kSoundTop = 14, kSoundHeight = 120, kProbabilityTop = 150, kProbabilityHeight = 90;
constexpr double kBottom = kProbabilityTop + kProbabilityHeight;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

/// A step of the axis that gives between five and ten marks.
double step_of_marks(double duration) {
  const double tenth = std::max(duration, 1e-3) / 10;
  const double power = std::pow(10, std::floor(std::log10(tenth)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= tenth) return factor * power;
  return 10 * power;
}

class Plot {
 public:
  explicit Plot(double duration) : duration_(std::max(duration, 1e-3)) {}

  void shade(const std::vector<Segment>& segments) {
    for (const Segment& s : segments) {
      svg_ += "<rect class=\"speech\" x=\"" + number(x(s.begin)) + "\" y=\"" + number(kSoundTop) +
              "\" width=\"" + number(x(s.end) - x(s.begin)) + "\" height=\"" +
              number(kBottom - kSoundTop) + "\"/>\n";
    }
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
        return number(middle - static_cast<double>(v / loudest) * kSoundHeight / 2);
      };
      path += "M" + number(kLeft + static_cast<double>(c) / 2) + " " + y(*low) + "V" + y(*high);
    }
    svg_ += "<path class=\"sound\" d=\"" + path + "\"/>\n";
  }

  void draw_probabilities(const std::vector<float>& probabilities, double window, float threshold) {
    const auto y = [](float p) { return kBottom - static_cast<double>(p) * kProbabilityHeight; };
    svg_ += "<path class=\"threshold\" d=\"M" + number(kLeft) + " " + number(y(threshold)) + "h" +
            number(kWidth) + "\"/>\n<path class=\"probability\" d=\"";
    for (size_t i = 0; i < probabilities.size(); ++i) {
      const double time = std::min((static_cast<double>(i) + 0.5) * window, duration_);
      svg_ += (i ? "L" : "M") + number(x(time)) + " " + number(y(probabilities[i]));
    }
    svg_ += "\"/>\n";
    text(kLeft - 6, y(1) + 8, "end", "1");
    text(kLeft - 6, y(0), "end", "0");
    text(kLeft - 6, y(0.5F) + 4, "end", "speech");
  }

  void draw_axis() {
    svg_ += "<path class=\"axis\" d=\"M" + number(kLeft) + " " + number(kBottom) + "h" +
            number(kWidth) + "\"/>\n";
    const double step = step_of_marks(duration_);
    for (int i = 0; step * i <= duration_ * 1.0001; ++i) {
      char label[32];
      std::snprintf(label, sizeof label, "%g s", step * i);
      svg_ +=
          "<path class=\"axis\" d=\"M" + number(x(step * i)) + " " + number(kBottom) + "v5\"/>\n";
      text(x(step * i), kBottom + 18, "middle", label);
    }
  }

  std::string svg() const {
    const std::string size =
        "width=\"" + number(kLeft + kWidth + kRight) + "\" height=\"" + number(kBottom + 26) + "\"";
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" " + size +
           ">\n<style>text{font:12px sans-serif;fill:#444}path{fill:none}"
           ".speech{fill:#cfe8cf}.sound{stroke:#4a6a8a;stroke-width:.6}"
           ".probability{stroke:#c0392b;stroke-width:1.3}"
           ".threshold{stroke:#999;stroke-dasharray:4 4}.axis{stroke:#444}</style>\n"
           "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n" +
           svg_ + "</svg>\n";
  }

 private:
  double x(double time) const { return kLeft + time / duration_ * kWidth; }
  void text(double at_x, double at_y, const char* anchor, const std::string& content) {
    svg_ += "<text x=\"" + number(at_x) + "\" y=\"" + number(at_y) + "\" text-anchor=\"" + anchor +
            "\">" + content + "</text>\n";
  }

  double duration_;
  std::string svg_;
};

}  // namespace

Error write_plot(const Sound& sound, const std::vector<float>& probabilities, double window,
                 const std::vector<Segment>& segments, float threshold, const std::string& path) {
  Plot plot(static_cast<double>(sound.samples.size()) / sound.rate);
  plot.shade(segments);
  if (!sound.samples.empty()) plot.draw_sound(sound);
  plot.draw_probabilities(probabilities, window, threshold);
  plot.draw_axis();
  std::ofstream out(path, std::ios::binary);
  out << plot.svg();
  out.close();
  if (out) return {};
  return {REPRISE_IO, path + ": cannot be written: " + std::strerror(errno)};
}

}  // namespace vad
