#include "apps/samples/sound_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace samples {

void draw_sound(Svg& svg, const char* css_class, const Sound& sound, const Box& box) {
  if (sound.samples.empty()) return;
  const auto quieter = [](float a, float b) { return std::abs(a) < std::abs(b); };
  const float loudest = std::max(
      1e-6F, std::abs(*std::max_element(sound.samples.begin(), sound.samples.end(), quieter)));
  const double middle = box.top + box.height / 2;
  const auto y = [&](float v) {
    return Svg::number(middle - static_cast<double>(v / loudest) * box.height / 2);
  };
  const auto columns = static_cast<size_t>(2 * box.width);
  std::string path;
  for (size_t c = 0; c < columns; ++c) {
    const size_t begin = sound.samples.size() * c / columns;
    const size_t end = std::max(begin + 1, sound.samples.size() * (c + 1) / columns);
    if (begin >= sound.samples.size()) break;
    const auto [low, high] = std::minmax_element(
        sound.samples.begin() + static_cast<std::ptrdiff_t>(begin),
        sound.samples.begin() + static_cast<std::ptrdiff_t>(std::min(end, sound.samples.size())));
    path +=
        "M" + Svg::number(box.left + static_cast<double>(c) / 2) + " " + y(*low) + "V" + y(*high);
  }
  svg.path(css_class, path);
}

void draw_seconds(Svg& svg, const char* css_class, double duration, double left, double y,
                  double width) {
  svg.path(css_class, "M" + Svg::number(left) + " " + Svg::number(y) + "h" + Svg::number(width));
  const double step = step_of_marks(duration);
  for (int i = 0; step * i <= duration * 1.0001; ++i) {
    const double x = left + step * i / duration * width;
    char label[32];
    std::snprintf(label, sizeof label, "%g s", step * i);
    svg.path(css_class, "M" + Svg::number(x) + " " + Svg::number(y) + "v5");
    svg.text(x, y + 18, "middle", label);
  }
}

}  // namespace samples
