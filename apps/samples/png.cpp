#include "apps/samples/png.h"

#include <png.h>

namespace samples {

reprise::Error write_png(const std::string& path, int width, int height, int channels,
                         const unsigned char* pixels) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(width);
  png.height = static_cast<png_uint_32>(height);
  png.format = channels == 4 ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
  if (png_image_write_to_file(&png, path.c_str(), 0, pixels, 0, nullptr)) return {};
  return {REPRISE_IO, path + ": cannot be written: " + png.message};
}

}  // namespace samples
