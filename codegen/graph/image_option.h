// An input or output of a model that is an image, and how its pixels become the model's numbers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/image_format.h"
#include "runtime/base/status.h"

namespace reprise {

/// A pixel of 8 bits is a number from 0 to 1, a byte divided by 255; one of 16 bits is the number
/// that it holds. Nothing is converted to or from sRGB. Of an input, the model gets
/// (pixel * scale - mean) / std. Of an output, the pixel is (value * std + mean) / scale, rounded
/// to the nearest byte and limited to what the format holds; NaN becomes 0.
struct ImageOption {
  enum class Colors : uint8_t { Auto, Rgb, Bgr, Gray, Rgba };  // of the model's channels
  enum class Layout : uint8_t { Auto, Nchw, Nhwc };            // of the model's tensor
  enum class Resize : uint8_t { None, Nearest, Bilinear };
  enum class Matrix : uint8_t { Bt601, Bt709 };  // of NV12
  enum class Crop : uint8_t { None, Fixed, Run };

  std::string name;
  ImageFormat format = ImageFormat::Rgba8;
  Colors colors = Colors::Auto;
  Layout layout = Layout::Auto;
  double scale = 1;
  std::vector<double> mean, std;  // one number, or one for each channel; empty: 0 and 1
  // Of NV12. The colour of an input counts for its 2 x 2 pixels; that of an output is their mean.
  Matrix matrix = Matrix::Bt709;
  bool full_range = false;
  // Of inputs only:
  Resize resize = Resize::None;  // to the model's size; with half-pixel centres
  Crop crop = Crop::None;
  std::array<int64_t, 4> rectangle{};  // x, y, width and height of a fixed crop
  int64_t width = 0, height = 0;       // of the image; 0: each run has its own
};

/// The name of the input that has the rectangle of an image whose crop each run gives.
std::string crop_input_of(const std::string& image);

/// Parses "NAME=FORMAT,KEY=VALUE,...", as --image takes it. Code::Usage lists what there is.
Result<ImageOption> parse_image(std::string_view text);
/// What is done to the pixels, for people: "bilinear, rgb, (pixel * 255 - 128) / 1".
std::string describe(const ImageOption& option);

}  // namespace reprise
