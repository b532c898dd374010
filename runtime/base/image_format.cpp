#include "runtime/base/image_format.h"

#include <array>

namespace reprise {

namespace {

constexpr std::array<std::string_view, 6> kNames{"none", "rgba8", "bgra8", "rgba16f", "r8", "nv12"};
static_assert(kNames.size() == static_cast<size_t>(kLastImageFormat) + 1);

}  // namespace

std::string_view name_of(ImageFormat format) {
  return kNames[static_cast<size_t>(format)];
}

std::optional<ImageFormat> image_format_named(std::string_view name) {
  for (size_t i = 1; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<ImageFormat>(i);
  return std::nullopt;
}

}  // namespace reprise
