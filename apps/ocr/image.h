// Pictures: 8-bit RGB in memory, PNG and JPEG files, and parts of them at another size.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/ocr/geometry.h"
#include "reprise/reprise.hpp"

namespace ocr {

using reprise::Error;
using reprise::Result;

struct Image {
  int width = 0, height = 0;
  std::vector<uint8_t> pixels;  // rows from the top, three bytes for each pixel: red, green, blue

  Image() = default;
  Image(int w, int h)
      : width(w), height(h), pixels(static_cast<size_t>(w) * static_cast<size_t>(h) * 3) {}
  /// The three bytes of a pixel.
  uint8_t* at(int x, int y) { return pixels.data() + offset(x, y); }
  const uint8_t* at(int x, int y) const { return pixels.data() + offset(x, y); }

 private:
  size_t offset(int x, int y) const {
    return (static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)) * 3;
  }
};

/// Reads a PNG or JPEG file. What is transparent becomes white.
Result<Image> read_image(const std::string& path);
Error write_png(const Image& image, const std::string& path);

/// Scales a picture with linear interpolation between the centres of pixels.
Image resize(const Image& image, int width, int height);
/// Cuts out a box, upright. Text that runs from top to bottom is turned to run from left to right.
Image crop(const Image& image, const Quad& box);
/// Turns a picture upside down.
Image turn(const Image& image);

void draw_line(Image& image, Point from, Point to, std::array<uint8_t, 3> colour, int thickness);

}  // namespace ocr
