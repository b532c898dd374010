// Texts of files in messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace reprise::formats {

/// The beginning of a text, cut between two characters.
inline std::string_view beginning_of(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return text.substr(0, most);
}

/// The same in quotes, without control characters.
inline std::string quoted(std::string_view text, size_t most = 80) {
  std::string out = "'";
  for (const char c : beginning_of(text, most))
    out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  return out + (text.size() > most ? "...'" : "'");
}

}  // namespace reprise::formats
