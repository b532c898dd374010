#include "apps/live/text.h"

#include <array>
#include <cctype>

namespace live {
namespace {

constexpr uint32_t kColumns = 5, kRows = 7;  // of a letter
constexpr uint32_t kCell = 6, kLine = 10, kMargin = 4;

struct Letter {
  char character;
  std::array<uint8_t, kRows> rows;  // from the top; the highest of five bits is on the left
};

// clang-format off
constexpr Letter kLetters[] = {
    {'0', {14, 17, 19, 21, 25, 17, 14}},
    {'1', { 4, 12,  4,  4,  4,  4, 14}},
    {'2', {14, 17,  1,  2,  4,  8, 31}},
    {'3', {30,  1,  1, 14,  1,  1, 30}},
    {'4', { 2,  6, 10, 18, 31,  2,  2}},
    {'5', {31, 16, 30,  1,  1, 17, 14}},
    {'6', {14, 16, 16, 30, 17, 17, 14}},
    {'7', {31,  1,  2,  2,  4,  4,  4}},
    {'8', {14, 17, 17, 14, 17, 17, 14}},
    {'9', {14, 17, 17, 15,  1,  1, 14}},
    {'A', {14, 17, 17, 31, 17, 17, 17}},
    {'B', {30, 17, 17, 30, 17, 17, 30}},
    {'C', {15, 16, 16, 16, 16, 16, 15}},
    {'D', {30, 17, 17, 17, 17, 17, 30}},
    {'E', {31, 16, 16, 30, 16, 16, 31}},
    {'F', {31, 16, 16, 30, 16, 16, 16}},
    {'G', {15, 16, 16, 19, 17, 17, 15}},
    {'H', {17, 17, 17, 31, 17, 17, 17}},
    {'I', {14,  4,  4,  4,  4,  4, 14}},
    {'J', { 7,  2,  2,  2,  2, 18, 12}},
    {'K', {17, 18, 20, 24, 20, 18, 17}},
    {'L', {16, 16, 16, 16, 16, 16, 31}},
    {'M', {17, 27, 21, 21, 17, 17, 17}},
    {'N', {17, 25, 25, 21, 19, 19, 17}},
    {'O', {14, 17, 17, 17, 17, 17, 14}},
    {'P', {30, 17, 17, 30, 16, 16, 16}},
    {'Q', {14, 17, 17, 17, 21, 18, 13}},
    {'R', {30, 17, 17, 30, 20, 18, 17}},
    {'S', {15, 16, 16, 14,  1,  1, 30}},
    {'T', {31,  4,  4,  4,  4,  4,  4}},
    {'U', {17, 17, 17, 17, 17, 17, 14}},
    {'V', {17, 17, 17, 10, 10,  4,  4}},
    {'W', {17, 17, 17, 21, 21, 27, 17}},
    {'X', {17, 17, 10,  4, 10, 17, 17}},
    {'Y', {17, 17, 10,  4,  4,  4,  4}},
    {'Z', {31,  1,  2,  4,  8, 16, 31}},
    {'.', { 0,  0,  0,  0,  0, 12, 12}},
    {':', { 0, 12, 12,  0, 12, 12,  0}},
    {'-', { 0,  0,  0, 14,  0,  0,  0}},
    {'/', { 1,  1,  2,  4,  8, 16, 16}},
    {'%', {25, 25,  2,  4,  8, 19, 19}},
};
// clang-format on

}  // namespace

Pixels::Pixels(uint32_t columns, uint32_t lines, uint32_t scale)
    : scale_(scale),
      width_((columns * kCell + 2 * kMargin) * scale),
      height_((lines * kLine + 2 * kMargin - (kLine - kRows)) * scale),
      bytes_(size_t{width_} * height_ * 4) {
  for (size_t i = 0; i < bytes_.size(); i += 4) {
    bytes_[i] = bytes_[i + 1] = bytes_[i + 2] = 24;
    bytes_[i + 3] = 255;
  }
}

void Pixels::write(const std::string& text, uint32_t line) {
  uint32_t left = kMargin;
  for (const char c : text) {
    const int capital = std::toupper(static_cast<unsigned char>(c));
    for (const Letter& letter : kLetters) {
      if (letter.character != capital) continue;
      for (uint32_t y = 0; y < kRows; ++y)
        for (uint32_t x = 0; x < kColumns; ++x)
          if (letter.rows[y] >> (kColumns - 1 - x) & 1) set(left + x, kMargin + line * kLine + y);
    }
    left += kCell;
  }
}

Pixels Pixels::filled(uint32_t width, uint32_t height) {
  Pixels out(0, 0, 1);
  out.width_ = width;
  out.height_ = height;
  out.bytes_.assign(size_t{width} * height * 4, 240);
  return out;
}

void Pixels::set(uint32_t x, uint32_t y) {
  for (uint32_t py = y * scale_; py < (y + 1) * scale_ && py < height_; ++py) {
    for (uint32_t px = x * scale_; px < (x + 1) * scale_ && px < width_; ++px) {
      unsigned char* const pixel = &bytes_[(size_t{py} * width_ + px) * 4];
      pixel[0] = pixel[1] = pixel[2] = 240;
    }
  }
}

}  // namespace live
