// Text that samples write.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "apps/samples/path.h"
#include "reprise/reprise.hpp"

namespace samples {

inline reprise::Error write_file(const std::string& path, const std::string& bytes) {
  std::ofstream out(utf8_path(path), std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (out) return {};
  return {REPRISE_IO, path + ": cannot be written: " + std::strerror(errno)};
}

/// Writes a file; "-" is standard output.
inline reprise::Error write_text(const std::string& path, const std::string& text) {
  if (path != "-") return write_file(path, text);
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return {};
  return {REPRISE_IO, "standard output cannot be written"};
}

}  // namespace samples
