#include "apps/filetype/plot.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "apps/samples/svg.h"

namespace filetype {
namespace {

constexpr size_t kMostBars = 20;
constexpr double kLeft = 120, kTop = 12, kWidth = 480, kRow = 20, kBar = 14, kLabels = 150;
constexpr const char* kStyle = ".bar{fill:#4a6a8a}";

using Bar = std::pair<std::string, Share>;

/// "12 files, 3.4 MB"
std::string label(const Share& share) {
  constexpr const char* kUnits[] = {"bytes", "kB", "MB", "GB", "TB"};
  auto size = static_cast<double>(share.bytes);
  size_t unit = 0;
  for (; size >= 1000 && unit + 1 < std::size(kUnits); ++unit) size /= 1000;
  char text[64];
  std::snprintf(text, sizeof text, "%llu file%s, %.*f %s",
                static_cast<unsigned long long>(share.files), share.files == 1 ? "" : "s",
                unit == 0 ? 0 : 1, size, kUnits[unit]);
  return text;
}

std::vector<Bar> bars_of(const std::map<std::string, Share>& types) {
  std::vector<Bar> bars(types.begin(), types.end());
  std::ranges::stable_sort(bars, std::greater<>(), [](const Bar& b) { return b.second.bytes; });
  if (bars.size() <= kMostBars) return bars;
  Share rest;
  for (size_t i = kMostBars - 1; i < bars.size(); ++i) {
    rest.files += bars[i].second.files;
    rest.bytes += bars[i].second.bytes;
  }
  bars.resize(kMostBars - 1);
  bars.emplace_back("others", rest);
  return bars;
}

}  // namespace

reprise::Error write_plot(const std::map<std::string, Share>& types, const std::string& path) {
  const std::vector<Bar> bars = bars_of(types);
  uint64_t most = 1;
  for (const Bar& bar : bars) most = std::max(most, bar.second.bytes);
  samples::Svg svg(kLeft + kWidth + kLabels,
                   2 * kTop + kRow * static_cast<double>(std::max<size_t>(1, bars.size())), kStyle);
  for (size_t i = 0; i < bars.size(); ++i) {
    const auto& [type, share] = bars[i];
    const double y = kTop + kRow * static_cast<double>(i);
    const double width =
        std::max(1.0, kWidth * static_cast<double>(share.bytes) / static_cast<double>(most));
    svg.text(kLeft - 8, y + 12, "end", type);
    svg.rectangle("bar", kLeft, y, width, kBar);
    svg.text(kLeft + width + 8, y + 12, "start", label(share));
  }
  return svg.save(path);
}

}  // namespace filetype
