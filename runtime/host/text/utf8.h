// Code points of UTF-8 text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::host {

/// A code point and the number of its bytes; 0 bytes if there is none, or the bytes are not valid.
struct CodePoint {
  uint32_t code = 0;
  size_t bytes = 0;
};
/// The first code point of a text.
CodePoint first_code_point(std::string_view text);
/// `code` must be at most 0x10ffff.
void append_utf8(uint32_t code, std::string& to);

}  // namespace reprise::host
