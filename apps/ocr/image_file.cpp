#include <cerrno>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <memory>

// jpeglib.h uses names of stdio.h without including it.
#include <jpeglib.h>
#include <png.h>

#include "apps/ocr/image.h"
#include "apps/samples/png.h"

namespace ocr {
namespace {

constexpr size_t kMostPixels = size_t{1} << 28;  // more is taken for a damaged header

struct Closer {
  void operator()(FILE* f) const { std::fclose(f); }
};
using File = std::unique_ptr<FILE, Closer>;

Error bad(const std::string& path, const std::string& reason) {
  return {REPRISE_INVALID_INPUT, path + ": " + reason};
}

Result<Image> read_png(FILE* file, const std::string& path) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_stdio(&png, file)) return bad(path, png.message);
  if (size_t{png.width} * png.height > kMostPixels) {
    png_image_free(&png);
    return bad(path, "the picture is too large");
  }
  png.format = PNG_FORMAT_RGB;
  Image image(static_cast<int>(png.width), static_cast<int>(png.height));
  const png_color white{255, 255, 255};
  if (!png_image_finish_read(&png, &white, image.pixels.data(), 0, nullptr))
    return bad(path, png.message);
  return image;
}

/// libjpeg reports errors by a call that must not return.
struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->back, 1);
}

void on_warning(j_common_ptr, int) {}

/// Has no objects with destructors, which longjmp would leave out. Returns whether it succeeded.
bool decode_jpeg(FILE* file, JpegErrors& errors, Image& image) {
  jpeg_decompress_struct info;
  info.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = on_error;
  errors.manager.emit_message = on_warning;
  if (setjmp(errors.back)) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_create_decompress(&info);
  jpeg_stdio_src(&info, file);
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  if (size_t{info.output_width} * info.output_height > kMostPixels) {
    std::strcpy(errors.message, "the picture is too large");
    std::longjmp(errors.back, 1);
  }
  image = Image(static_cast<int>(info.output_width), static_cast<int>(info.output_height));
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = image.at(0, static_cast<int>(info.output_scanline));
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return true;
}

}  // namespace

Result<Image> read_image(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file) return Error{REPRISE_IO, path + ": cannot be opened: " + std::strerror(errno)};
  unsigned char start[8]{};
  const size_t read = std::fread(start, 1, sizeof start, file.get());
  std::rewind(file.get());
  if (read == sizeof start && png_sig_cmp(start, 0, sizeof start) == 0)
    return read_png(file.get(), path);
  if (start[0] != 0xFF || start[1] != 0xD8) return bad(path, "neither a PNG nor a JPEG file");
  JpegErrors errors{};
  Image image;
  if (!decode_jpeg(file.get(), errors, image)) return bad(path, errors.message);
  return image;
}

Error write_png(const Image& image, const std::string& path) {
  return samples::write_png(path, image.width, image.height, 3, image.pixels.data());
}

}  // namespace ocr
