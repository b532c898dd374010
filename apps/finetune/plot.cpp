#include "apps/finetune/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "apps/samples/svg.h"

namespace finetune {
namespace {

using samples::Svg;

constexpr double kLeft = 56, kTop = 14, kWidth = 640, kHeight = 240, kRight = 16;
constexpr double kBottom = kTop + kHeight;
constexpr const char* kStyle =
    ".step{stroke:#9db8d2;stroke-width:.8}.mean{stroke:#c0392b;stroke-width:1.6}"
    ".axis{stroke:#444}.grid{stroke:#ddd}";
/// A running mean shows the course of losses that differ from batch to batch.
constexpr double kKept = 0.9;

std::string label(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

class Plot {
 public:
  explicit Plot(const std::vector<float>& losses)
      : losses_(losses), last_(std::max<double>(1, static_cast<double>(losses.size()) - 1)) {
    for (const float loss : losses)
      if (std::isfinite(loss)) most_ = std::max(most_, static_cast<double>(loss));
    most_ = most_ > 0 ? most_ * 1.05 : 1;
  }

  void draw_axes() {
    const double step = samples::step_of_marks(most_);
    for (int i = 0; step * i <= most_; ++i) {
      svg.path(i ? "grid" : "axis", "M" + Svg::number(kLeft) + " " + Svg::number(y(step * i)) +
                                        "h" + Svg::number(kWidth));
      svg.text(kLeft - 6, y(step * i) + 4, "end", label(step * i));
    }
    const double marks = std::max(1.0, samples::step_of_marks(last_));
    for (int i = 0; marks * i <= last_; ++i) {
      svg.path("axis", "M" + Svg::number(x(marks * i)) + " " + Svg::number(kBottom) + "v5");
      svg.text(x(marks * i), kBottom + 18, "middle", label(marks * i));
    }
    svg.text(kLeft + kWidth, kTop + 12, "end", "loss of each step, and its running mean");
  }

  void draw_losses() {
    std::string step_line, mean_line;
    double mean = 0, weight = 0;
    bool gap = true;
    for (size_t i = 0; i < losses_.size(); ++i) {
      const double loss = losses_[i];
      if (!std::isfinite(loss)) {
        gap = true;
        continue;
      }
      mean = kKept * mean + (1 - kKept) * loss;
      weight = kKept * weight + (1 - kKept);
      const std::string to = (gap ? "M" : "L") + Svg::number(x(static_cast<double>(i))) + " ";
      step_line += to + Svg::number(y(loss));
      mean_line += to + Svg::number(y(mean / weight));
      gap = false;
    }
    svg.path("step", step_line);
    svg.path("mean", mean_line);
  }

  Svg svg{kLeft + kWidth + kRight, kBottom + 26, kStyle};

 private:
  double x(double step) const { return kLeft + step / last_ * kWidth; }
  double y(double loss) const { return kBottom - std::max(loss, 0.0) / most_ * kHeight; }

  const std::vector<float>& losses_;
  double last_, most_ = 0;
};

}  // namespace

reprise::Error write_plot(const std::vector<float>& losses, const std::string& path) {
  Plot plot(losses);
  plot.draw_axes();
  plot.draw_losses();
  return plot.svg.save(path);
}

}  // namespace finetune
