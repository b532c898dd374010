#include "apps/ocr/image.h"

#include <algorithm>
#include <cmath>

namespace ocr {
namespace {

/// The colour between four pixels. Outside the picture, its edge continues.
void sample(const Image& image, float x, float y, uint8_t* out) {
  const float floor_x = std::floor(x), floor_y = std::floor(y);
  const int x0 = std::clamp(static_cast<int>(floor_x), 0, image.width - 1);
  const int y0 = std::clamp(static_cast<int>(floor_y), 0, image.height - 1);
  const int x1 = std::clamp(static_cast<int>(floor_x) + 1, 0, image.width - 1);
  const int y1 = std::clamp(static_cast<int>(floor_y) + 1, 0, image.height - 1);
  const float wx = x - floor_x, wy = y - floor_y;
  for (int c = 0; c < 3; ++c) {
    const auto value = [&](int px, int py) { return static_cast<float>(image.at(px, py)[c]); };
    const float top = value(x0, y0) + (value(x1, y0) - value(x0, y0)) * wx;
    const float bottom = value(x0, y1) + (value(x1, y1) - value(x0, y1)) * wx;
    out[c] = static_cast<uint8_t>(std::lround(top + (bottom - top) * wy));
  }
}

Image turn_left(const Image& image) {
  Image out(image.height, image.width);
  for (int y = 0; y < out.height; ++y)
    for (int x = 0; x < out.width; ++x)
      std::copy_n(image.at(image.width - 1 - y, x), 3, out.at(x, y));
  return out;
}

}  // namespace

Image resize(const Image& image, int width, int height) {
  Image out(width, height);
  const float sx = static_cast<float>(image.width) / static_cast<float>(width);
  const float sy = static_cast<float>(image.height) / static_cast<float>(height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      sample(image, (static_cast<float>(x) + 0.5F) * sx - 0.5F,
             (static_cast<float>(y) + 0.5F) * sy - 0.5F, out.at(x, y));
    }
  }
  return out;
}

Image crop(const Image& image, const Quad& box) {
  const float w = std::max(distance(box[0], box[1]), distance(box[3], box[2]));
  const float h = std::max(distance(box[0], box[3]), distance(box[1], box[2]));
  Image out(std::max(1, static_cast<int>(w)), std::max(1, static_cast<int>(h)));
  for (int y = 0; y < out.height; ++y) {
    const float v = (static_cast<float>(y) + 0.5F) / static_cast<float>(out.height);
    for (int x = 0; x < out.width; ++x) {
      const float u = (static_cast<float>(x) + 0.5F) / static_cast<float>(out.width);
      const float px = box[0].x + (box[1].x - box[0].x) * u + (box[3].x - box[0].x) * v;
      const float py = box[0].y + (box[1].y - box[0].y) * u + (box[3].y - box[0].y) * v;
      sample(image, px - 0.5F, py - 0.5F, out.at(x, y));
    }
  }
  return 2 * out.height >= 3 * out.width ? turn_left(out) : out;
}

Image turn(const Image& image) {
  Image out(image.width, image.height);
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x)
      std::copy_n(image.at(x, y), 3, out.at(image.width - 1 - x, image.height - 1 - y));
  return out;
}

void draw_line(Image& image, Point from, Point to, std::array<uint8_t, 3> colour, int thickness) {
  const int steps = std::max(1, static_cast<int>(std::ceil(distance(from, to) * 2)));
  for (int i = 0; i <= steps; ++i) {
    const float t = static_cast<float>(i) / static_cast<float>(steps);
    const int left = static_cast<int>(std::lround(from.x + (to.x - from.x) * t)) - thickness / 2;
    const int top = static_cast<int>(std::lround(from.y + (to.y - from.y) * t)) - thickness / 2;
    for (int y = std::max(top, 0); y < std::min(top + thickness, image.height); ++y)
      for (int x = std::max(left, 0); x < std::min(left + thickness, image.width); ++x)
        std::copy(colour.begin(), colour.end(), image.at(x, y));
  }
}

}  // namespace ocr
