// The interface of libreprise_images, which decodes image files. It is a shared library of its own,
// so that applications whose models have no ImageDecoder need no libraries of image formats.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

/// The version of this interface, which the library and its user must share.
enum { kRepriseImagesVersion = 1 };

/// What a caller gives the library.
struct reprise_image_request {
  const uint8_t* bytes;  // the file
  size_t size;
  uint64_t max_pixels;  // larger images are errors
  /// Returns memory for height * width * 3 bytes, or null if there is none. Called at most once.
  uint8_t* (*allocate)(void* user, uint32_t height, uint32_t width);
  void* user;
  char* error;  // receives the message, which ends with a zero byte
  size_t error_size;
};

/// Decodes a BMP, JPEG, JPEG 2000, PNG, PNM, TIFF or WebP file to RGB, 8 bits each, rows from the
/// top. Returns whether it succeeded. Thread-safe.
using reprise_images_decode_function = int (*)(int version, const reprise_image_request* request);
}
