#include <webp/decode.h>

#include "runtime/images/decoder.h"

namespace reprise::images {

bool decode_webp(Request& r) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(r.bytes(), r.size(), &features) != VP8_STATUS_OK)
    return r.fail("the header of the WebP file is damaged");
  if (features.has_animation != 0)
    return r.fail("animations of WebP are not supported; save one frame");
  const auto width = static_cast<uint64_t>(features.width);
  const auto height = static_cast<uint64_t>(features.height);
  uint8_t* pixels = r.allocate(height, width);
  if (pixels == nullptr) return false;
  const size_t stride = 3 * static_cast<size_t>(width);
  if (WebPDecodeRGBInto(r.bytes(), r.size(), pixels, stride * static_cast<size_t>(height),
                        static_cast<int>(stride)) == nullptr)
    return r.fail("the WebP file is truncated or damaged");
  return true;
}

}  // namespace reprise::images
