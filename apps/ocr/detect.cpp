#include "apps/ocr/detect.h"

#include <algorithm>
#include <cmath>

namespace ocr {
namespace {

/// The pixels of a map that belong to text.
class Mask {
 public:
  Mask(const std::vector<float>& map, int width, int height, float ink)
      : width_(width), height_(height), pixels_(map.size(), kEmpty) {
    // Each pixel also marks its neighbours to the right and below, which closes gaps of one pixel.
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        if (map[index(x, y)] <= ink) continue;
        for (int down = 0; down < 2 && y + down < height; ++down)
          for (int right = 0; right < 2 && x + right < width; ++right)
            pixels_[index(x + right, y + down)] = kNew;
      }
    }
  }

  bool is_new(int x, int y) const { return pixels_[index(x, y)] == kNew; }

  /// Of all pixels that are connected to this one by sides or corners, returns those at the ends of
  /// rows: the corners of their hull are among these. The pixels are not new any more.
  std::vector<Point> take_component(int x, int y) {
    std::vector<Point> ends;
    std::vector<std::pair<int, int>> open{{x, y}};
    pixels_[index(x, y)] = kSeen;
    while (!open.empty()) {
      const auto [cx, cy] = open.back();
      open.pop_back();
      if (!is_set(cx - 1, cy) || !is_set(cx + 1, cy))
        ends.push_back({static_cast<float>(cx), static_cast<float>(cy)});
      for (int ny = std::max(cy - 1, 0); ny <= std::min(cy + 1, height_ - 1); ++ny) {
        for (int nx = std::max(cx - 1, 0); nx <= std::min(cx + 1, width_ - 1); ++nx) {
          if (!is_new(nx, ny)) continue;
          pixels_[index(nx, ny)] = kSeen;
          open.emplace_back(nx, ny);
        }
      }
    }
    return ends;
  }

 private:
  enum State : uint8_t { kEmpty, kNew, kSeen };

  size_t index(int x, int y) const {
    return static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x);
  }
  bool is_set(int x, int y) const { return x >= 0 && x < width_ && pixels_[index(x, y)] != kEmpty; }

  int width_, height_;
  std::vector<State> pixels_;
};

/// The mean of the map inside a rectangle.
float mean_inside(const std::vector<float>& map, int width, int height, const Rectangle& r) {
  const Quad corners = r.corners();
  const auto [left, right] = std::minmax({corners[0].x, corners[1].x, corners[2].x, corners[3].x});
  const auto [top, bottom] = std::minmax({corners[0].y, corners[1].y, corners[2].y, corners[3].y});
  double sum = 0;
  int count = 0;
  for (int y = std::max(0, static_cast<int>(top));
       y <= std::min(height - 1, static_cast<int>(bottom)); ++y) {
    for (int x = std::max(0, static_cast<int>(left));
         x <= std::min(width - 1, static_cast<int>(right)); ++x) {
      if (!r.contains({static_cast<float>(x), static_cast<float>(y)})) continue;
      sum += static_cast<double>(
          map[static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)]);
      ++count;
    }
  }
  return count ? static_cast<float>(sum / count) : 0;
}

/// Sorts lines from the top, and those side by side from the left.
void sort_for_reading(std::vector<Quad>& boxes) {
  const auto middle = [](const Quad& q) { return (q[0].y + q[1].y + q[2].y + q[3].y) / 4; };
  const auto height = [](const Quad& q) { return distance(q[0], q[3]); };
  std::sort(boxes.begin(), boxes.end(),
            [&](const Quad& a, const Quad& b) { return middle(a) < middle(b); });
  for (size_t start = 0; start < boxes.size();) {
    size_t end = start + 1;
    while (end < boxes.size() && middle(boxes[end]) - middle(boxes[start]) <
                                     std::min(height(boxes[start]), height(boxes[end])) / 2)
      ++end;
    std::sort(boxes.begin() + static_cast<std::ptrdiff_t>(start),
              boxes.begin() + static_cast<std::ptrdiff_t>(end),
              [](const Quad& a, const Quad& b) { return a[0].x < b[0].x; });
    start = end;
  }
}

int multiple_of_32(float length) {
  return std::max(1, static_cast<int>(std::lround(length / 32))) * 32;
}

}  // namespace

Batch::Batch(int n, int h, int w)
    : count(n),
      height(h),
      width(w),
      values(static_cast<size_t>(n) * 3 * static_cast<size_t>(h) * static_cast<size_t>(w)) {}

void Batch::set(int index, const Image& image) {
  const size_t plane = static_cast<size_t>(height) * static_cast<size_t>(width);
  float* const to = values.data() + static_cast<size_t>(index) * 3 * plane;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      const size_t at =
          static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x);
      for (size_t c = 0; c < 3; ++c)
        to[c * plane + at] = static_cast<float>(image.at(x, y)[2 - c]) / 127.5F - 1;
    }
  }
}

Batch detection_input(const Image& image, int side) {
  const float longer = static_cast<float>(std::max(image.width, image.height));
  const float scale = std::min(static_cast<float>(side) / longer, 2.0F);
  Batch batch(1, multiple_of_32(static_cast<float>(image.height) * scale),
              multiple_of_32(static_cast<float>(image.width) * scale));
  batch.set(0, resize(image, batch.width, batch.height));
  return batch;
}

std::vector<Quad> find_boxes(const std::vector<float>& map, int width, int height, int to_width,
                             int to_height, const DetectOptions& options) {
  std::vector<Quad> boxes;
  Mask mask(map, width, height, options.ink);
  const float sx = static_cast<float>(to_width) / static_cast<float>(width);
  const float sy = static_cast<float>(to_height) / static_cast<float>(height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      if (!mask.is_new(x, y)) continue;
      const Rectangle core = smallest_rectangle(mask.take_component(x, y));
      if (std::min(core.width, core.height) < options.smallest_side) continue;
      if (mean_inside(map, width, height, core) < options.certainty) continue;
      const float by = options.margin * core.width * core.height / (2 * (core.width + core.height));
      Quad box = core.grown(by).corners();
      for (Point& p : box) {
        p.x = std::clamp(p.x * sx, 0.0F, static_cast<float>(to_width));
        p.y = std::clamp(p.y * sy, 0.0F, static_cast<float>(to_height));
      }
      boxes.push_back(box);
    }
  }
  sort_for_reading(boxes);
  return boxes;
}

}  // namespace ocr
