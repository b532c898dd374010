#include <csetjmp>
#include <cstdio>
// jpeglib.h needs the declarations of stdio.h.
#include <jpeglib.h>
// After jpeglib.h.
#include <jerror.h>

#include <algorithm>
#include <cstring>

#include "runtime/images/decoder.h"

namespace reprise::images {

namespace {

/// More scans than any encoder writes: a small file could keep the decoder busy for minutes.
constexpr int kMaxScans = 500;

struct Errors {
  jpeg_error_mgr base;  // first: libjpeg knows only this
  jmp_buf jump;
  Request* request;
};

extern "C" void on_jpeg_error(j_common_ptr jpeg) {
  auto* errors = reinterpret_cast<Errors*>(jpeg->err);
  char message[JMSG_LENGTH_MAX];
  jpeg->err->format_message(jpeg, message);
  errors->request->fail(message);
  std::longjmp(errors->jump, 1);
}

/// libjpeg fills what damaged data lack with grey. Other warnings do not concern the pixels.
extern "C" void on_jpeg_message(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  switch (jpeg->err->msg_code) {
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
    case JWRN_ARITH_BAD_CODE:
      on_jpeg_error(jpeg);
      break;
    default:
      break;
  }
}

extern "C" void on_jpeg_progress(j_common_ptr jpeg) {
  auto* d = reinterpret_cast<j_decompress_ptr>(jpeg);
  if (d->input_scan_number <= kMaxScans) return;
  auto* errors = reinterpret_cast<Errors*>(jpeg->err);
  errors->request->fail("the JPEG file has more than 500 scans");
  std::longjmp(errors->jump, 1);
}

/// Adobe's files hold CMYK with inverted values, other ones as they are.
void cmyk_to_rgb(const uint8_t* from, uint8_t* to, uint32_t width, bool inverted) {
  for (uint32_t x = 0; x < width; ++x) {
    const uint32_t black = inverted ? from[4 * x + 3] : 255U - from[4 * x + 3];
    for (uint32_t c = 0; c < 3; ++c) {
      const uint32_t ink = inverted ? from[4 * x + c] : 255U - from[4 * x + c];
      to[3 * x + c] = static_cast<uint8_t>((ink * black + 127) / 255);
    }
  }
}

bool read_image(jpeg_decompress_struct& d, Errors& errors, Request& r) {
  if (setjmp(errors.jump) != 0) return false;
  jpeg_create_decompress(&d);
  jpeg_progress_mgr progress{};
  progress.progress_monitor = on_jpeg_progress;
  d.progress = &progress;
  jpeg_mem_src(&d, r.bytes(), r.size());
  jpeg_read_header(&d, TRUE);
  const bool cmyk = d.jpeg_color_space == JCS_CMYK || d.jpeg_color_space == JCS_YCCK;
  d.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  uint8_t* pixels = r.allocate(d.image_height, d.image_width);
  if (pixels == nullptr) return false;
  jpeg_start_decompress(&d);
  if (d.output_width != d.image_width || d.output_components != (cmyk ? 4 : 3))
    return r.fail("the JPEG file has components that are not supported");
  // The library frees this row with the rest.
  JSAMPARRAY row = (*d.mem->alloc_sarray)(reinterpret_cast<j_common_ptr>(&d), JPOOL_IMAGE,
                                          4 * d.output_width, 1);
  while (d.output_scanline < d.output_height) {
    uint8_t* to = pixels + size_t{3} * d.output_width * d.output_scanline;
    JSAMPROW direct = to;
    if (jpeg_read_scanlines(&d, cmyk ? row : &direct, 1) != 1)
      return r.fail("the JPEG file is truncated");
    if (cmyk) cmyk_to_rgb(row[0], to, d.output_width, d.saw_Adobe_marker != 0);
  }
  jpeg_finish_decompress(&d);
  return true;
}

}  // namespace

bool decode_jpeg(Request& r) {
  jpeg_decompress_struct d{};
  Errors errors{};
  errors.request = &r;
  d.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = on_jpeg_error;
  errors.base.emit_message = on_jpeg_message;
  const bool ok = read_image(d, errors, r);
  jpeg_destroy_decompress(&d);
  return ok;
}

}  // namespace reprise::images
