#include <openjpeg.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "runtime/images/decoder.h"

namespace reprise::images {

namespace {

struct Input {
  Request* request;
  size_t at = 0;
};

extern "C" OPJ_SIZE_T jp2_read(void* to, OPJ_SIZE_T count, void* user) {
  auto* in = static_cast<Input*>(user);
  const size_t n = std::min<size_t>(count, in->request->size() - in->at);
  if (n == 0) return static_cast<OPJ_SIZE_T>(-1);
  std::memcpy(to, in->request->bytes() + in->at, n);
  in->at += n;
  return n;
}

extern "C" OPJ_OFF_T jp2_skip(OPJ_OFF_T count, void* user) {
  auto* in = static_cast<Input*>(user);
  if (count < 0) return -1;
  const auto n = std::min<uint64_t>(static_cast<uint64_t>(count), in->request->size() - in->at);
  in->at += static_cast<size_t>(n);
  return static_cast<OPJ_OFF_T>(n);
}

extern "C" OPJ_BOOL jp2_seek(OPJ_OFF_T to, void* user) {
  auto* in = static_cast<Input*>(user);
  if (to < 0 || static_cast<uint64_t>(to) > in->request->size()) return OPJ_FALSE;
  in->at = static_cast<size_t>(to);
  return OPJ_TRUE;
}

extern "C" void jp2_error(const char* message, void* user) {
  static_cast<Request*>(user)->fail(message);
}

extern "C" void jp2_quiet(const char*, void*) {}

using Codec = std::unique_ptr<opj_codec_t, void (*)(opj_codec_t*)>;
using Stream = std::unique_ptr<opj_stream_t, void (*)(opj_stream_t*)>;
using Image = std::unique_ptr<opj_image_t, void (*)(opj_image_t*)>;

/// A sample as 8 bits.
uint8_t sample(const opj_image_comp_t& c, size_t i) {
  int64_t v = c.data[i];
  if (c.sgnd != 0) v += int64_t{1} << (c.prec - 1);
  v = std::clamp<int64_t>(v, 0, (int64_t{1} << c.prec) - 1);
  if (c.prec == 8) return static_cast<uint8_t>(v);
  const int64_t most = (int64_t{1} << c.prec) - 1;
  return static_cast<uint8_t>((v * 255 + most / 2) / most);
}

uint8_t rounded(double v) {
  return static_cast<uint8_t>(std::clamp(v + 0.5, 0.0, 255.0));
}

void ycc_to_rgb(uint8_t* p) {
  const double y = p[0], cb = p[1] - 128.0, cr = p[2] - 128.0;
  p[0] = rounded(y + 1.402 * cr);
  p[1] = rounded(y - 0.344136 * cb - 0.714136 * cr);
  p[2] = rounded(y + 1.772 * cb);
}

/// Checks that the components are planes of one size.
bool check_components(const opj_image_t& image, uint32_t width, uint32_t height, Request& r) {
  if (image.numcomps == 0) return r.fail("the JPEG 2000 file has no components");
  const uint32_t used = image.numcomps < 3 ? 1 : 3;
  for (uint32_t c = 0; c < used; ++c) {
    const opj_image_comp_t& comp = image.comps[c];
    if (comp.w != width || comp.h != height)
      return r.fail(
          "components of JPEG 2000 that differ in size are not supported; save the image "
          "without chroma subsampling");
    if (comp.prec < 1 || comp.prec > 31)
      return r.fail("the JPEG 2000 file has samples of an unsupported precision");
  }
  return true;
}

bool write_pixels(const opj_image_t& image, uint8_t* pixels, size_t count, Request& r) {
  const bool grey = image.numcomps < 3;
  for (uint32_t c = 0; c < (grey ? 1U : 3U); ++c) {
    if (image.comps[c].data == nullptr) return r.fail("the JPEG 2000 file is truncated or damaged");
  }
  const bool ycc = image.color_space == OPJ_CLRSPC_SYCC || image.color_space == OPJ_CLRSPC_EYCC;
  if (image.color_space == OPJ_CLRSPC_CMYK)
    return r.fail("CMYK in JPEG 2000 is not supported; save the image as RGB");
  for (size_t i = 0; i < count; ++i, pixels += 3) {
    for (uint32_t c = 0; c < 3; ++c) pixels[c] = sample(image.comps[grey ? 0 : c], i);
    if (ycc && !grey) ycc_to_rgb(pixels);
  }
  return true;
}

}  // namespace

bool decode_jpeg2000(Request& r) {
  r.fail("the JPEG 2000 file is truncated or damaged");  // unless the library has a message
  const bool raw = r.bytes()[0] == 0xff;
  const Codec codec(opj_create_decompress(raw ? OPJ_CODEC_J2K : OPJ_CODEC_JP2), opj_destroy_codec);
  const Stream stream(opj_stream_default_create(OPJ_TRUE), opj_stream_destroy);
  if (codec == nullptr || stream == nullptr) return r.fail("OpenJPEG could not be initialised");
  opj_set_error_handler(codec.get(), jp2_error, &r);
  opj_set_warning_handler(codec.get(), jp2_quiet, nullptr);
  opj_set_info_handler(codec.get(), jp2_quiet, nullptr);
  Input input{&r};
  opj_stream_set_read_function(stream.get(), jp2_read);
  opj_stream_set_skip_function(stream.get(), jp2_skip);
  opj_stream_set_seek_function(stream.get(), jp2_seek);
  opj_stream_set_user_data(stream.get(), &input, nullptr);
  opj_stream_set_user_data_length(stream.get(), r.size());
  opj_dparameters_t parameters;
  opj_set_default_decoder_parameters(&parameters);
  if (opj_setup_decoder(codec.get(), &parameters) == OPJ_FALSE) return false;
  opj_decoder_set_strict_mode(codec.get(), OPJ_TRUE);
  opj_image_t* opened = nullptr;
  if (opj_read_header(stream.get(), codec.get(), &opened) == OPJ_FALSE) return false;
  const Image image(opened, opj_image_destroy);
  const uint32_t width = image->x1 - image->x0, height = image->y1 - image->y0;
  if (image->x1 < image->x0 || image->y1 < image->y0 || !check_components(*image, width, height, r))
    return false;
  // The library keeps 4 bytes for each sample of each component.
  if (image->numcomps > 4) return r.fail("JPEG 2000 with more than 4 components is not supported");
  uint8_t* pixels = r.allocate(height, width);
  if (pixels == nullptr) return false;
  if (opj_decode(codec.get(), stream.get(), image.get()) == OPJ_FALSE ||
      opj_end_decompress(codec.get(), stream.get()) == OPJ_FALSE)
    return false;
  // A palette adds components when it is applied.
  if (!check_components(*image, width, height, r)) return false;
  return write_pixels(*image, pixels, size_t{width} * height, r);
}

}  // namespace reprise::images
