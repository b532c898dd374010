// BMP files of Windows and OS/2: 1, 4, 8, 16, 24 and 32 bits for each pixel, also run-length
// encoded.
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "runtime/images/decoder.h"

namespace reprise::images {

namespace {

enum Compression : uint32_t {
  kNone = 0,
  kRle8 = 1,
  kRle4 = 2,
  kBitFields = 3,
  kAlphaBitFields = 6
};

constexpr size_t kFileHeader = 14, kCoreHeader = 12, kInfoHeader = 40;

uint32_t u16(const uint8_t* p) {
  return p[0] | static_cast<uint32_t>(p[1]) << 8;
}

uint32_t u32(const uint8_t* p) {
  return u16(p) | u16(p + 2) << 16;
}

struct Header {
  size_t size = 0;  // of the part that follows the file header
  uint64_t width = 0, height = 0;
  bool top_down = false;
  uint32_t bits = 0, compression = kNone;
  size_t pixels_at = 0;
  std::array<uint32_t, 3> masks{};  // of red, green and blue, for 16 and 32 bits
  std::vector<std::array<uint8_t, 3>> palette;

  size_t row_bytes() const { return (static_cast<size_t>(width) * bits + 31) / 32 * 4; }
};

bool read_masks(Header& h, Request& r) {
  if (h.compression == kNone) {
    h.masks = h.bits == 16 ? std::array<uint32_t, 3>{0x7c00, 0x3e0, 0x1f}
                           : std::array<uint32_t, 3>{0xff0000, 0xff00, 0xff};
    return true;
  }
  if (r.size() < kFileHeader + kInfoHeader + 12) return r.fail("the BMP file is truncated");
  for (size_t i = 0; i < 3; ++i) h.masks[i] = u32(r.bytes() + kFileHeader + kInfoHeader + 4 * i);
  for (const uint32_t mask : h.masks) {
    const uint32_t shifted = mask == 0 ? 0 : mask >> std::countr_zero(mask);
    if ((shifted & (shifted + 1)) != 0) return r.fail("a colour mask of the BMP file has holes");
  }
  return true;
}

bool read_palette(Header& h, Request& r, uint32_t used) {
  const size_t entry = h.size == kCoreHeader ? 3 : 4;
  const size_t at = kFileHeader + h.size;
  const size_t most = size_t{1} << h.bits;
  size_t count = used == 0 || used > most ? most : used;
  if (h.pixels_at >= at) count = std::min(count, (h.pixels_at - at) / entry);
  if (at > r.size() || !fits(r.size() - at, count, entry))
    return r.fail("the palette of the BMP file is truncated");
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* p = r.bytes() + at + i * entry;
    h.palette.push_back({p[2], p[1], p[0]});
  }
  return true;
}

bool is_supported(const Header& h) {
  switch (h.compression) {
    case kNone:
      return h.bits == 1 || h.bits == 4 || h.bits == 8 || h.bits == 16 || h.bits == 24 ||
             h.bits == 32;
    case kRle8:
      return h.bits == 8 && !h.top_down;
    case kRle4:
      return h.bits == 4 && !h.top_down;
    case kBitFields:
    case kAlphaBitFields:
      return h.bits == 16 || h.bits == 32;
    default:
      return false;
  }
}

bool read_header(Header& h, Request& r) {
  const uint8_t* p = r.bytes();
  if (r.size() < kFileHeader + kCoreHeader) return r.fail("the BMP file is truncated");
  h.pixels_at = u32(p + 10);
  h.size = u32(p + kFileHeader);
  const uint8_t* info = p + kFileHeader;
  uint32_t used = 0;
  if (h.size == kCoreHeader) {
    h.width = u16(info + 4);
    h.height = u16(info + 6);
    h.bits = u16(info + 10);
  } else {
    if (h.size < kInfoHeader) return r.fail("the BMP file has an unknown kind of header");
    if (r.size() < kFileHeader + kInfoHeader) return r.fail("the BMP file is truncated");
    const auto width = static_cast<int32_t>(u32(info + 4));
    const auto height = static_cast<int32_t>(u32(info + 8));
    if (width < 0) return r.fail("the BMP file has a negative width");
    h.width = static_cast<uint64_t>(width);
    h.top_down = height < 0;
    h.height = static_cast<uint64_t>(height < 0 ? -int64_t{height} : int64_t{height});
    h.bits = u16(info + 14);
    h.compression = u32(info + 16);
    used = u32(info + 32);
  }
  if (!is_supported(h))
    return r.fail("the BMP file has an unsupported number of bits or compression");
  return h.bits <= 8 ? read_palette(h, r, used) : h.bits == 24 || read_masks(h, r);
}

/// The bits that the mask selects, as 8 bits.
uint8_t masked(uint32_t pixel, uint32_t mask) {
  if (mask == 0) return 0;
  const int shift = std::countr_zero(mask);
  const uint64_t most = mask >> shift;
  return static_cast<uint8_t>((uint64_t{(pixel & mask) >> shift} * 255 + most / 2) / most);
}

bool put_index(const Header& h, uint32_t index, uint8_t* to, Request& r) {
  if (index >= h.palette.size()) return r.fail("a pixel of the BMP file is not in the palette");
  for (size_t c = 0; c < 3; ++c) to[c] = h.palette[index][c];
  return true;
}

bool put_pixel(const Header& h, const uint8_t* row, size_t x, uint8_t* to, Request& r) {
  if (h.bits == 24) {
    for (size_t c = 0; c < 3; ++c) to[c] = row[3 * x + 2 - c];
    return true;
  }
  if (h.bits > 8) {
    const uint32_t pixel = h.bits == 16 ? u16(row + 2 * x) : u32(row + 4 * x);
    for (size_t c = 0; c < 3; ++c) to[c] = masked(pixel, h.masks[c]);
    return true;
  }
  const size_t bit = x * h.bits;
  const uint32_t byte = row[bit / 8];
  return put_index(h, (byte >> (8 - h.bits - bit % 8)) & ((1U << h.bits) - 1), to, r);
}

bool read_rows(const Header& h, uint8_t* pixels, Request& r) {
  const auto width = static_cast<size_t>(h.width), height = static_cast<size_t>(h.height);
  for (size_t y = 0; y < height; ++y) {
    const uint8_t* row =
        r.bytes() + h.pixels_at + h.row_bytes() * (h.top_down ? y : height - 1 - y);
    uint8_t* to = pixels + 3 * width * y;
    for (size_t x = 0; x < width; ++x, to += 3) {
      if (!put_pixel(h, row, x, to, r)) return false;
    }
  }
  return true;
}

/// Run-length encoded indices. Pixels that the file skips have index 0.
class RunLengths {
 public:
  RunLengths(const Header& h, Request& r, uint8_t* pixels)
      : h_(h), r_(r), pixels_(pixels), at_(h.pixels_at) {}

  bool read() {
    const auto width = static_cast<size_t>(h_.width), height = static_cast<size_t>(h_.height);
    for (size_t i = 0; i < width * height; ++i) {
      if (!put_index(h_, 0, pixels_ + 3 * i, r_)) return false;
    }
    for (;;) {
      if (r_.size() - at_ < 2) return r_.fail("the BMP file is truncated");
      const uint8_t count = r_.bytes()[at_], value = r_.bytes()[at_ + 1];
      at_ += 2;
      if (count > 0) {
        for (unsigned i = 0; i < count; ++i) {
          if (!put(h_.bits == 8 ? value : i % 2 == 0 ? value >> 4 : value & 15)) return false;
        }
      } else if (value == 0) {
        x_ = 0;
        ++y_;
      } else if (value == 1) {
        return true;
      } else if (value == 2 ? !skip() : !literal(value)) {
        return false;
      }
    }
  }

 private:
  bool put(uint32_t index) {
    if (x_ >= h_.width || y_ >= h_.height) return r_.fail("a run of the BMP file leaves the image");
    const uint64_t row = h_.height - 1 - y_;
    return put_index(h_, index, pixels_ + 3 * (row * h_.width + x_++), r_);
  }

  bool skip() {
    if (r_.size() - at_ < 2) return r_.fail("the BMP file is truncated");
    x_ += r_.bytes()[at_];
    y_ += r_.bytes()[at_ + 1];
    at_ += 2;
    return true;
  }

  bool literal(unsigned count) {
    const size_t bytes = h_.bits == 8 ? count : (count + 1) / 2;
    if (r_.size() - at_ < bytes + bytes % 2) return r_.fail("the BMP file is truncated");
    for (unsigned i = 0; i < count; ++i) {
      const uint8_t byte = r_.bytes()[at_ + (h_.bits == 8 ? i : i / 2)];
      if (!put(h_.bits == 8 ? byte : i % 2 == 0 ? byte >> 4 : byte & 15)) return false;
    }
    at_ += bytes + bytes % 2;
    return true;
  }

  const Header& h_;
  Request& r_;
  uint8_t* pixels_;
  size_t at_;
  uint64_t x_ = 0, y_ = 0;
};

}  // namespace

bool decode_bmp(Request& r) {
  Header h;
  if (!read_header(h, r)) return false;
  const bool runs = h.compression == kRle8 || h.compression == kRle4;
  if (h.pixels_at > r.size() || (!runs && !fits(r.size() - h.pixels_at, h.height, h.row_bytes())))
    return r.fail("the BMP file is truncated");
  uint8_t* pixels = r.allocate(h.height, h.width);
  if (pixels == nullptr) return false;
  return runs ? RunLengths(h, r, pixels).read() : read_rows(h, pixels, r);
}

}  // namespace reprise::images
