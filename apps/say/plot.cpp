#include "apps/say/plot.h"

#include <algorithm>

#include "apps/samples/sound_plot.h"

namespace say {
namespace {

using samples::Svg;

constexpr double kLeft = 16, kWidth = 868, kTop = 34, kHeight = 120, kBottom = kTop + kHeight + 8;
constexpr const char* kStyle =
    ".sentence{fill:#e8eef6}.sound{stroke:#4a6a8a;stroke-width:.6}.axis{stroke:#444}";

}  // namespace

reprise::Error write_plot(const samples::Sound& sound, const std::vector<Spoken>& sentences,
                          const std::string& path) {
  const double duration = std::max(static_cast<double>(sound.samples.size()) / sound.rate, 1e-3);
  Svg svg(kLeft + kWidth + 16, kBottom + 26, kStyle);
  const auto x = [&](double time) { return kLeft + time / duration * kWidth; };
  for (const Spoken& s : sentences) {
    svg.rectangle("sentence", x(s.begin), kTop - 4, x(s.end) - x(s.begin), kBottom - kTop + 4);
    svg.text((x(s.begin) + x(s.end)) / 2, kTop - 14, "middle", s.phonemes);
  }
  samples::draw_sound(svg, "sound", sound, {kLeft, kTop, kWidth, kHeight});
  samples::draw_seconds(svg, "axis", duration, kLeft, kBottom, kWidth);
  return svg.save(path);
}

}  // namespace say
