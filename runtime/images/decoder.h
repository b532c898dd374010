// Decoders of image formats. Each reads one file to RGB. Files are not trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/host/image_library.h"

namespace reprise::images {

/// One call of the library. Errors of libraries in C leave by longjmp, so its functions that
/// decoders call between setjmp and the end must not have local variables with destructors.
class Request {
 public:
  explicit Request(const reprise_image_request& r) : r_(r) {}
  const uint8_t* bytes() const { return r_.bytes; }
  size_t size() const { return r_.size; }
  uint64_t max_pixels() const { return r_.max_pixels; }
  /// The pixels of the result. Null, with an error, if the size is 0 or too large.
  uint8_t* allocate(uint64_t height, uint64_t width);
  /// Sets the message and returns false.
  bool fail(const char* message) const;

 private:
  const reprise_image_request& r_;
};

/// Whether rows of an image fit in the file, for formats without compression.
inline bool fits(size_t available, uint64_t rows, uint64_t bytes_per_row) {
  return bytes_per_row == 0 || rows <= available / bytes_per_row;
}

bool decode_bmp(Request& r);
bool decode_jpeg(Request& r);
bool decode_jpeg2000(Request& r);
bool decode_png(Request& r);
bool decode_pnm(Request& r);
bool decode_tiff(Request& r);
bool decode_webp(Request& r);

}  // namespace reprise::images
