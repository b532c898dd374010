// Recognises the format of a file.
#include <cstdio>
#include <cstring>
#include <string_view>

#include "runtime/images/decoder.h"

namespace reprise::images {

uint8_t* Request::allocate(uint64_t height, uint64_t width) {
  constexpr uint64_t kMaxSide = 1U << 30;
  char message[160];
  if (height == 0 || width == 0) {
    fail("the image has no pixels");
    return nullptr;
  }
  if (height > kMaxSide || width > kMaxSide || height * width > r_.max_pixels) {
    std::snprintf(message, sizeof message,
                  "the image has %llu x %llu pixels; at most %llu are decoded",
                  static_cast<unsigned long long>(width), static_cast<unsigned long long>(height),
                  static_cast<unsigned long long>(r_.max_pixels));
    fail(message);
    return nullptr;
  }
  uint8_t* pixels =
      r_.allocate(r_.user, static_cast<uint32_t>(height), static_cast<uint32_t>(width));
  if (pixels == nullptr) fail("there is not enough memory for the pixels");
  return pixels;
}

bool Request::fail(const char* message) const {
  if (r_.error_size > 0) std::snprintf(r_.error, r_.error_size, "%s", message);
  return false;
}

namespace {

using Decoder = bool (*)(Request&);

struct Format {
  std::string_view magic;
  Decoder decode;
  std::string_view at_8 = {};  // further bytes from position 8
};

using std::string_view_literals::operator""sv;

constexpr Format kFormats[] = {
    {"\x89PNG\r\n\x1a\n"sv, decode_png},
    {"\xff\xd8\xff"sv, decode_jpeg},
    {"RIFF"sv, decode_webp, "WEBP"sv},
    {"II*\0"sv, decode_tiff},
    {"MM\0*"sv, decode_tiff},
    {"II+\0"sv, decode_tiff},
    {"MM\0+"sv, decode_tiff},
    {"\0\0\0\x0cjP  \r\n\x87\n"sv, decode_jpeg2000},
    {"\xff\x4f\xff\x51"sv, decode_jpeg2000},
    {"BM"sv, decode_bmp},
    {"P1"sv, decode_pnm},
    {"P2"sv, decode_pnm},
    {"P3"sv, decode_pnm},
    {"P4"sv, decode_pnm},
    {"P5"sv, decode_pnm},
    {"P6"sv, decode_pnm},
};

bool decode(Request& r) {
  const std::string_view file(reinterpret_cast<const char*>(r.bytes()), r.size());
  for (const Format& f : kFormats) {
    const bool matches =
        file.starts_with(f.magic) &&
        (f.at_8.empty() || (file.size() >= 8 && file.substr(8).starts_with(f.at_8)));
    if (matches) return f.decode(r);
  }
  return r.fail("it is not a BMP, JPEG, JPEG 2000, PNG, PNM, TIFF or WebP file");
}

}  // namespace

}  // namespace reprise::images

extern "C" __attribute__((visibility("default"))) int reprise_images_decode(
    int version, const reprise_image_request* request) {
  if (version != kRepriseImagesVersion || request == nullptr) return 0;
  reprise::images::Request r(*request);
  try {
    return reprise::images::decode(r) ? 1 : 0;
  } catch (...) {  // std::bad_alloc
    r.fail("there is not enough memory to decode the image");
    return 0;
  }
}
