#include <png.h>

#include <csetjmp>
#include <cstdlib>
#include <cstring>

#include "runtime/images/decoder.h"

namespace reprise::images {

namespace {

struct Input {
  Request* request;
  size_t at;
};

extern "C" void read_bytes(png_structp png, png_bytep to, png_size_t count) {
  auto* in = static_cast<Input*>(png_get_io_ptr(png));
  if (count > in->request->size() - in->at) png_error(png, "the PNG file is truncated");
  std::memcpy(to, in->request->bytes() + in->at, count);
  in->at += count;
}

extern "C" void on_error(png_structp png, png_const_charp message) {
  static_cast<Request*>(png_get_error_ptr(png))->fail(message);
  png_longjmp(png, 1);
}

extern "C" void on_warning(png_structp, png_const_charp) {}

/// Makes every kind of image RGB of 8 bits.
void set_transformations(png_structp png) {
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
}

bool read_image(png_structp png, png_infop info, Request& r) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_read_info(png, info);
  set_transformations(png);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  const png_uint_32 width = png_get_image_width(png, info);
  const png_uint_32 height = png_get_image_height(png, info);
  uint8_t* pixels = r.allocate(height, width);
  if (pixels == nullptr) return false;
  if (png_get_rowbytes(png, info) != size_t{3} * width)
    return r.fail("the PNG file has rows of another size than its header says");
  for (int pass = 0; pass < passes; ++pass) {
    for (png_uint_32 y = 0; y < height; ++y)
      png_read_row(png, pixels + size_t{3} * width * y, nullptr);
  }
  png_read_end(png, nullptr);
  return true;
}

}  // namespace

bool decode_png(Request& r) {
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, on_error, on_warning);
  png_infop info = png != nullptr ? png_create_info_struct(png) : nullptr;
  if (info == nullptr) {
    png_destroy_read_struct(&png, nullptr, nullptr);
    return r.fail("libpng could not be initialised");
  }
  Input input{&r, 0};
  png_set_read_fn(png, &input, read_bytes);
  const bool ok = read_image(png, info, r);
  png_destroy_read_struct(&png, &info, nullptr);
  return ok;
}

}  // namespace reprise::images
