// The shared library libreprise_images decodes files; it is opened when it is needed.
#include "runtime/host/image_decoder.h"

#include <array>
#include <string>

#include "runtime/host/image_library.h"
#include "runtime/host/own_library.h"

namespace reprise::host {

namespace {

constexpr const char* kLibrary = "reprise_images";
/// A small file may claim any size. This many pixels are 400 MB.
constexpr uint64_t kMaxPixels = uint64_t{1} << 27;

struct Library {
  reprise_images_decode_function decode = nullptr;
  std::string missing;  // why it cannot be used
};

Library open_library() {
  const platform::Library opened = open_own_library(kLibrary);
  Library library;
  library.decode = opened.function<reprise_images_decode_function>("reprise_images_decode");
  if (library.decode == nullptr)
    library.missing = opened ? "it lacks reprise_images_decode" : opened.error();
  return library;
}

uint8_t* allocate_pixels(void* user, uint32_t height, uint32_t width) {
  try {
    auto pixels = allocate(DType::U8, {height, width, 3});
    if (!pixels.ok()) return nullptr;
    auto* out = static_cast<HostTensor*>(user);
    *out = *std::move(pixels);
    return out->mutable_data<uint8_t>();
  } catch (...) {  // the caller may be C
    return nullptr;
  }
}

/// The file's pixels as RGB, [height, width, 3].
Result<HostTensor> decode(const HostTensor& file) {
  static const Library library = open_library();
  if (library.decode == nullptr) {
    return unsupported("decoding images needs " + platform::library_name(kLibrary) +
                       ", which cannot be opened (" + library.missing +
                       "): install libpng-dev, libjpeg-dev, libwebp-dev, libtiff-dev and "
                       "libopenjp2-7-dev, build Reprise again, and put the library beside the "
                       "program or where the dynamic loader finds it");
  }
  HostTensor pixels;
  std::array<char, 256> error{};
  const std::vector<uint8_t> none(1);
  const reprise_image_request request{file.count() > 0 ? file.data<uint8_t>() : none.data(),
                                      static_cast<size_t>(file.count()),
                                      kMaxPixels,
                                      allocate_pixels,
                                      &pixels,
                                      error.data(),
                                      error.size()};
  if (library.decode(kRepriseImagesVersion, &request) != 0) return pixels;
  if (error[0] == 0)
    return unsupported(platform::library_name(kLibrary) + " is of another version");
  return invalid_input("the image cannot be decoded: " + std::string(error.data()));
}

/// Luma of ITU-R 601 with weights in 16 bits, as Pillow computes it, of which the standard's
/// examples come.
Result<HostTensor> to_grayscale(const HostTensor& rgb) {
  RP_ASSIGN(HostTensor out, allocate(DType::U8, {rgb.dims()[0], rgb.dims()[1], 1}));
  const uint8_t* from = rgb.data<uint8_t>();
  uint8_t* to = out.mutable_data<uint8_t>();
  for (int64_t i = 0; i < out.count(); ++i, from += 3)
    to[i] = static_cast<uint8_t>((19595U * from[0] + 38470U * from[1] + 7471U * from[2] + 0x8000) >>
                                 16);
  return out;
}

KernelResult image_decoder(const Call& c) {
  RP_TRY(check_arity(c, 1, 1));
  const HostTensor& file = input(c, 0);
  if (file.dtype() != DType::U8) return wrong_dtype(c, 0, "encoded_stream", "uint8");
  RP_TRY(require_rank(c, 0, "encoded_stream", 1, 1));
  const std::string format = c.attrs.get_string("pixel_format", "RGB");
  if (format != "RGB" && format != "BGR" && format != "Grayscale") {
    return invalid_model("attribute 'pixel_format' is '" + format +
                         "'; expected RGB, BGR or Grayscale");
  }
  RP_ASSIGN(HostTensor pixels, decode(file));
  if (format == "Grayscale") {
    RP_ASSIGN(pixels, to_grayscale(pixels));
  } else if (format == "BGR") {
    uint8_t* p = pixels.mutable_data<uint8_t>();
    for (int64_t i = 0; i < pixels.count(); i += 3) std::swap(p[i], p[i + 2]);
  }
  return one(std::move(pixels));
}

}  // namespace

Table image_table() {
  static constexpr Entry kTable[] = {{"ImageDecoder", image_decoder}};
  return kTable;
}

}  // namespace reprise::host
