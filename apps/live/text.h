// Text as pixels, in letters of five by seven.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace live {

/// A dark panel for lines of text, as RGBA bytes.
class Pixels {
 public:
  /// The size is in characters; each pixel of a letter becomes `scale` by `scale`.
  Pixels(uint32_t columns, uint32_t lines, uint32_t scale);
  /// Writes digits, letters (all as capitals) and the characters . : - / %. Others are blank.
  void write(const std::string& text, uint32_t line);

  /// A bright rectangle; the size is in pixels.
  static Pixels filled(uint32_t width, uint32_t height);

  uint32_t width() const { return width_; }
  uint32_t height() const { return height_; }
  const std::vector<unsigned char>& bytes() const { return bytes_; }

 private:
  void set(uint32_t x, uint32_t y);

  uint32_t scale_, width_, height_;
  std::vector<unsigned char> bytes_;
};

}  // namespace live
