// The formats of images that a model takes and returns, as they lie in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise {

/// Packages store these numbers, and they are those of the C interface.
enum class ImageFormat : uint8_t {
  None,     // a tensor, not an image
  Rgba8,    // [height, width, 4] of U8: red, green, blue, alpha
  Bgra8,    // the same: blue, green, red, alpha
  Rgba16F,  // [height, width, 4] of F16
  R8,       // [height, width, 1] of U8
  Nv12,     // [height * 3/2, width] of U8: the plane of brightness, then one of half its size in
            // which each 2 x 2 pixels have a byte U and a byte V
};
inline constexpr ImageFormat kLastImageFormat = ImageFormat::Nv12;

/// "rgba8"; "none" for None.
std::string_view name_of(ImageFormat format);
/// None is not a name.
std::optional<ImageFormat> image_format_named(std::string_view name);
/// The bytes of a pixel; of NV12, those of a pixel of the first plane.
constexpr uint32_t pixel_bytes(ImageFormat format) {
  switch (format) {
    case ImageFormat::Rgba8:
    case ImageFormat::Bgra8:
      return 4;
    case ImageFormat::Rgba16F:
      return 8;
    case ImageFormat::R8:
    case ImageFormat::Nv12:
      return 1;
    case ImageFormat::None:
      break;
  }
  return 0;
}

}  // namespace reprise
