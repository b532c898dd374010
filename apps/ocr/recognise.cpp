#include "apps/ocr/recognise.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ocr {
namespace {

constexpr float kMostWider = 1.3F;  // the widest line of a batch than the narrowest

}  // namespace

Image line_of_batch(const Image& line, int widest) {
  const float ratio = static_cast<float>(line.width) / static_cast<float>(line.height);
  const int width = static_cast<int>(std::ceil(static_cast<float>(kLineHeight) * ratio));
  return resize(line, std::clamp(width, 1, widest), kLineHeight);
}

std::vector<std::vector<size_t>> group_by_width(const std::vector<Image>& lines, size_t largest) {
  std::vector<size_t> order(lines.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto width = [&](size_t i) {
    const float ratio = static_cast<float>(lines[i].width) / static_cast<float>(lines[i].height);
    return std::max(ratio * static_cast<float>(kLineHeight), static_cast<float>(kNarrowestBatch));
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return width(a) < width(b); });
  std::vector<std::vector<size_t>> groups;
  for (const size_t i : order) {
    const bool fits = !groups.empty() && groups.back().size() < largest &&
                      width(i) <= kMostWider * width(groups.back().front());
    if (!fits) groups.emplace_back();
    groups.back().push_back(i);
  }
  return groups;
}

}  // namespace ocr
