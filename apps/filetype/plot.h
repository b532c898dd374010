// A picture of the types of files.
#pragma once

#include <map>
#include <string>

#include "reprise/reprise.hpp"

namespace filetype {

/// How many files have a type, and the bytes in them.
struct Share {
  uint64_t files = 0, bytes = 0;
};

/// Writes an SVG file with a bar for each type, the largest number of bytes first. Types beyond the
/// first twenty are one bar.
reprise::Error write_plot(const std::map<std::string, Share>& types, const std::string& path);

}  // namespace filetype
