// Text that reaches a terminal.
#pragma once

#include <string>

namespace samples {

/// Text without control characters but line ends and tabs, so that what a model says cannot steer a
/// terminal. It must be UTF-8.
inline std::string without_controls(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (c == 0xc2 && next >= 0x80 && next < 0xa0) {
      ++i;  // U+0080 to U+009F, which some terminals obey
    } else if ((c >= 0x20 && c != 0x7f) || c == '\n' || c == '\t') {
      out.push_back(text[i]);
    }
  }
  return out;
}

}  // namespace samples
