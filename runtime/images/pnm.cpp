// Portable bitmaps, graymaps and pixmaps: P1 to P6.
#include "runtime/images/decoder.h"

namespace reprise::images {

namespace {

bool is_space(uint8_t c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

class Reader {
 public:
  explicit Reader(Request& r) : r_(r) {}

  bool read() {
    const int kind = r_.bytes()[1] - '0';
    const bool bits = kind == 1 || kind == 4;
    const bool colour = kind == 3 || kind == 6;
    uint32_t width = 0, height = 0;
    if (!number(width) || !number(height) || (!bits && !number(most_))) return false;
    if (most_ < 1 || most_ > 65535)
      return r_.fail("the largest value of the PNM file is not from 1 to 65535");
    const uint64_t samples = uint64_t{width} * (colour ? 3 : 1);
    if (kind >= 4) {
      if (at_ >= r_.size()) return r_.fail("the PNM file is truncated");
      ++at_;  // one space character
    }
    // In text, each sample takes at least one byte.
    const uint64_t row =
        kind == 4 ? (samples + 7) / 8 : samples * (kind >= 5 && most_ > 255 ? 2 : 1);
    if (!fits(r_.size() - at_, height, row)) return r_.fail("the PNM file is truncated");
    uint8_t* to = r_.allocate(height, width);
    if (to == nullptr) return false;
    for (uint32_t y = 0; y < height; ++y) {
      for (uint32_t x = 0; x < width; ++x, to += 3) {
        if (!pixel(kind, x, to)) return false;
      }
      if (kind == 4) at_ += static_cast<size_t>(row);
    }
    return true;
  }

 private:
  bool pixel(int kind, uint32_t x, uint8_t* to) {
    const bool colour = kind == 3 || kind == 6;
    for (int c = 0; c < 3; ++c) {
      if (c > 0 && !colour) {
        to[c] = to[0];
        continue;
      }
      uint32_t v = 0;
      if (!sample(kind, x, v)) return false;
      to[c] = static_cast<uint8_t>((uint64_t{v} * 255 + most_ / 2) / most_);
    }
    return true;
  }

  bool sample(int kind, uint32_t x, uint32_t& v) {
    if (kind == 4) {
      v = (r_.bytes()[at_ + x / 8] >> (7 - x % 8) & 1) ^ 1U;  // 1 is black
      return true;
    }
    if (kind == 1) {
      if (!skip_space()) return false;
      const uint8_t digit = r_.bytes()[at_++];
      v = digit == '0' ? 1 : 0;
      return digit == '0' || digit == '1' || r_.fail("a pixel of the PNM file is not 0 or 1");
    }
    if (kind < 4) {
      if (!number(v)) return false;
    } else {
      v = r_.bytes()[at_++];
      if (most_ > 255) v = v << 8 | r_.bytes()[at_++];
    }
    return v <= most_ || r_.fail("a sample of the PNM file is larger than its largest value");
  }

  /// Skips spaces and comments.
  bool skip_space() {
    for (; at_ < r_.size(); ++at_) {
      if (r_.bytes()[at_] == '#') {
        while (at_ < r_.size() && r_.bytes()[at_] != '\n') ++at_;
        if (at_ == r_.size()) break;
      } else if (!is_space(r_.bytes()[at_])) {
        return true;
      }
    }
    return r_.fail("the PNM file is truncated");
  }

  bool number(uint32_t& v) {
    if (!skip_space()) return false;
    const size_t begin = at_;
    uint64_t n = 0;
    for (; at_ < r_.size() && r_.bytes()[at_] >= '0' && r_.bytes()[at_] <= '9'; ++at_) {
      n = 10 * n + (r_.bytes()[at_] - '0');
      if (n > UINT32_MAX) return r_.fail("a number of the PNM file is too large");
    }
    if (at_ == begin) return r_.fail("the PNM file has something else where a number must be");
    v = static_cast<uint32_t>(n);
    return true;
  }

  Request& r_;
  size_t at_ = 2;
  uint32_t most_ = 1;
};

}  // namespace

bool decode_pnm(Request& r) {
  return Reader(r).read();
}

}  // namespace reprise::images
