#include "apps/common/utf8.h"

namespace reprise::app {

namespace {

bool is_code_point(char32_t c) {
  return c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
}

/// The length of the sequence that begins with this byte; 0 if no sequence begins with it.
size_t sequence_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

/// Decodes the sequence at text[i]. Returns false if it is malformed.
bool decode(std::string_view text, size_t i, size_t length, char32_t& out) {
  static constexpr char32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (length == 0 || length > text.size() - i) return false;
  out = static_cast<unsigned char>(text[i]);
  if (length > 1) out &= (0x7Fu >> length);
  for (size_t k = 1; k < length; ++k) {
    const auto c = static_cast<unsigned char>(text[i + k]);
    if ((c & 0xC0) != 0x80) return false;
    out = out << 6 | (c & 0x3Fu);
  }
  return out >= smallest[length] && is_code_point(out);
}

}  // namespace

Result<std::u32string> from_utf8(std::string_view text) {
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = sequence_length(static_cast<unsigned char>(text[i]));
    char32_t c = 0;
    if (!decode(text, i, length, c)) {
      return invalid_input("malformed UTF-8 at byte " + std::to_string(i));
    }
    out += c;
    i += length;
  }
  return out;
}

Result<std::string> to_utf8(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) {
    if (!is_code_point(c)) return invalid_input("a string holds a value that is not a code point");
    const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (c >> shift & 0x3F)); };
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x800) {
      out += static_cast<char>(0xC0 | c >> 6);
      tail(0);
    } else if (c < 0x10000) {
      out += static_cast<char>(0xE0 | c >> 12);
      tail(6);
      tail(0);
    } else {
      out += static_cast<char>(0xF0 | c >> 18);
      tail(12);
      tail(6);
      tail(0);
    }
  }
  return out;
}

}  // namespace reprise::app
