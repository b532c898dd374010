// PNG files that sample applications write.
#pragma once

#include <string>

#include "reprise/reprise.hpp"

namespace samples {

/// Writes a picture of `channels` bytes per pixel: 3 (RGB) or 4 (RGBA).
reprise::Error write_png(const std::string& path, int width, int height, int channels,
                         const unsigned char* pixels);

}  // namespace samples
