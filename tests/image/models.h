// Models whose inputs or outputs are images, and what they must compute, written independently.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/graph/image_option.h"
#include "runtime/package/package.h"
#include "tests/support/onnx_writer.h"

namespace reprise::test {

/// y = max(x, -1000), whose kernel is nothing but the conversion of the image.
OnnxWriter same(const std::vector<int64_t>& dims, DType dtype = DType::F32);
/// A convolution of 3 x 3 with 8 channels, a mean over all pixels, and a layer: 4 scores. Its
/// numbers are multiples of 1/8, so that sums of bytes are exact.
OnnxWriter classifier(int64_t size, int64_t channels = 3);

/// Compiles a model in memory; `images` in the form of --image. Null after an error.
std::shared_ptr<const package::Package> compiled(const OnnxWriter& model,
                                                 const std::vector<std::string>& images,
                                                 const std::string& target = "vulkan");

/// Bytes that look random.
std::vector<uint8_t> noise(size_t n, uint32_t seed = 1);

/// An image as red, green and blue from 0 to 1.
struct Picture {
  int64_t width = 0, height = 0;
  std::vector<double> rgb;
  double at(int64_t y, int64_t x, int64_t c) const {
    return rgb[static_cast<size_t>((y * width + x) * 3 + c)];
  }
};
Picture from_bytes(ImageFormat format, int64_t width, int64_t height,
                   const std::vector<uint8_t>& bytes, bool bt601 = false, bool full = false);
/// The rectangle in another size, with half-pixel centres.
Picture resized(const Picture& p, double x, double y, double w, double h, int64_t width,
                int64_t height, bool bilinear);

}  // namespace reprise::test
