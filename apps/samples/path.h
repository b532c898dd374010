// Paths of the standard library. Text of samples is UTF-8, but on Windows the standard library
// takes chars to be in the code page of the C locale.
#pragma once

#include <filesystem>
#include <string>

namespace samples {

inline std::filesystem::path utf8_path(const std::string& text) {
  return std::u8string(text.begin(), text.end());
}

inline std::string utf8_text(const std::filesystem::path& path) {
  const std::u8string text = path.u8string();
  return {text.begin(), text.end()};
}

}  // namespace samples
