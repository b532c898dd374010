// Text that samples write.
#pragma once

#include <cstdio>
#include <string>

#include "reprise/reprise.hpp"

namespace samples {

/// Writes a file; "-" is standard output.
inline reprise::Error write_text(const std::string& path, const std::string& text) {
  FILE* out = path == "-" ? stdout : std::fopen(path.c_str(), "wb");
  if (!out) return {REPRISE_IO, path + ": cannot be written"};
  const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  const bool closed = out == stdout ? std::fflush(out) == 0 : std::fclose(out) == 0;
  return written && closed ? reprise::Error()
                           : reprise::Error{REPRISE_IO, path + ": cannot be written"};
}

}  // namespace samples
