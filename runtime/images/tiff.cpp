#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/images/decoder.h"

namespace reprise::images {

namespace {

struct File {
  Request* request;
  uint64_t at = 0;
  bool lacks_tag = false;  // a tag lies outside the file
};

extern "C" tmsize_t tiff_read(thandle_t handle, void* to, tmsize_t count) {
  auto* f = static_cast<File*>(handle);
  const uint64_t size = f->request->size();
  if (f->at >= size || count <= 0) return 0;
  const auto n =
      static_cast<size_t>(std::min<uint64_t>(static_cast<uint64_t>(count), size - f->at));
  std::memcpy(to, f->request->bytes() + f->at, n);
  f->at += n;
  return static_cast<tmsize_t>(n);
}

extern "C" tmsize_t tiff_write(thandle_t, void*, tmsize_t) {
  return 0;
}

extern "C" toff_t tiff_seek(thandle_t handle, toff_t offset, int whence) {
  auto* f = static_cast<File*>(handle);
  const uint64_t from = whence == SEEK_CUR ? f->at : whence == SEEK_END ? f->request->size() : 0;
  f->at = from + offset;
  return f->at;
}

extern "C" int tiff_close(thandle_t) {
  return 0;
}

extern "C" toff_t tiff_size(thandle_t handle) {
  return static_cast<File*>(handle)->request->size();
}

extern "C" int tiff_error(TIFF*, void* user, const char*, const char* format, va_list args) {
  char message[400];
  std::vsnprintf(message, sizeof message, format, args);
  static_cast<File*>(user)->request->fail(message);
  return 1;
}

/// The library ignores tags that it cannot read. Without its palette, an image is taken to be grey.
extern "C" int tiff_warning(TIFF*, void* user, const char*, const char* format, va_list) {
  if (std::strncmp(format, "IO error", 8) == 0) static_cast<File*>(user)->lacks_tag = true;
  return 1;
}

/// Colours that an alpha value does not scale would be scaled by it. So the image counts as one
/// whose colours are scaled already.
void ignore_alpha(TIFF* tiff) {
  uint16_t count = 0;
  uint16_t* kinds = nullptr;
  if (TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &count, &kinds) == 0 || count == 0) return;
  std::vector<uint16_t> own(kinds, kinds + count);
  own[0] = EXTRASAMPLE_ASSOCALPHA;
  TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, count, own.data());
}

bool read_image(TIFF* tiff, Request& r) {
  uint32_t width = 0, height = 0;
  if (TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width) == 0 ||
      TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height) == 0)
    return r.fail("the TIFF file does not say its size");
  char reason[1024] = "";
  if (TIFFRGBAImageOK(tiff, reason) == 0) return r.fail(reason);
  uint8_t* pixels = r.allocate(height, width);
  if (pixels == nullptr) return false;
  ignore_alpha(tiff);
  std::vector<uint32_t> raster(size_t{width} * height);
  r.fail("the TIFF file is truncated or damaged");  // unless the library has a message
  if (TIFFReadRGBAImageOriented(tiff, width, height, raster.data(), ORIENTATION_TOPLEFT, 1) == 0)
    return false;
  for (const uint32_t p : raster) {
    *pixels++ = static_cast<uint8_t>(TIFFGetR(p));
    *pixels++ = static_cast<uint8_t>(TIFFGetG(p));
    *pixels++ = static_cast<uint8_t>(TIFFGetB(p));
  }
  return true;
}

}  // namespace

bool decode_tiff(Request& r) {
  const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                             TIFFOpenOptionsFree);
  if (options == nullptr) return r.fail("libtiff could not be initialised");
  // A strip or a tile may be as large as the image, with 4 samples of 4 bytes.
  constexpr uint64_t kMaxSampleBytes = 16;
  const uint64_t most = std::max<uint64_t>(r.max_pixels() * kMaxSampleBytes, 1 << 20);
  TIFFOpenOptionsSetMaxSingleMemAlloc(
      options.get(), static_cast<tmsize_t>(std::min<uint64_t>(most, uint64_t{1} << 31)));
  File file{&r};
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), tiff_error, &file);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), tiff_warning, &file);
  r.fail("the TIFF file is damaged");
  // "m": do not map the file.
  TIFF* tiff = TIFFClientOpenExt("image", "rm", &file, tiff_read, tiff_write, tiff_seek, tiff_close,
                                 tiff_size, nullptr, nullptr, options.get());
  if (tiff == nullptr) return false;
  const std::unique_ptr<TIFF, void (*)(TIFF*)> closed(tiff, TIFFClose);
  if (file.lacks_tag) return r.fail("the TIFF file is truncated: one of its tags lies outside");
  return read_image(tiff, r);
}

}  // namespace reprise::images
