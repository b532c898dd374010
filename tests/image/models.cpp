#include "models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "codegen/compile/compile_model.h"

namespace reprise::test {
namespace {

/// Multiples of 1/8 between -1 and 1.
HostTensor eighths(const std::vector<int64_t>& dims, uint32_t seed) {
  size_t n = 1;
  for (const int64_t d : dims) n *= static_cast<size_t>(d);
  std::vector<float> v;
  for (const uint8_t b : noise(n, seed)) v.push_back(static_cast<float>(b % 17) / 8 - 1);
  return HostTensor::from(DType::F32, dims, v);
}

double half_to_double(uint16_t h) {
  const int exponent = h >> 10 & 31, mantissa = h & 1023;
  const double size =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return h >> 15 != 0 ? -size : size;
}

std::array<double, 3> from_yuv(double y, double u, double v, bool bt601, bool full) {
  const double kr = bt601 ? 0.299 : 0.2126, kb = bt601 ? 0.114 : 0.0722;
  const double luma = full ? y / 255 : (y - 16) / 219;
  const double cb = (u - 128) / (full ? 255 : 224), cr = (v - 128) / (full ? 255 : 224);
  const double r = luma + 2 * (1 - kr) * cr, b = luma + 2 * (1 - kb) * cb;
  const double g = (luma - kr * r - kb * b) / (1 - kr - kb);
  return {std::clamp(r, 0.0, 1.0), std::clamp(g, 0.0, 1.0), std::clamp(b, 0.0, 1.0)};
}

}  // namespace

std::vector<uint8_t> noise(size_t n, uint32_t seed) {
  std::vector<uint8_t> out(n);
  uint32_t state = seed * 2654435761U + 1;
  for (uint8_t& b : out) {
    state = state * 1664525U + 1013904223U;
    b = static_cast<uint8_t>(state >> 24);
  }
  return out;
}

OnnxWriter same(const std::vector<int64_t>& dims, DType dtype) {
  const std::vector<Dim> shape(dims.begin(), dims.end());
  OnnxWriter m;
  m.input("x", dtype, shape);
  m.output("y", dtype, shape);
  if (dtype == DType::F32) m.initializer("least", HostTensor::from<float>(dtype, {}, {-1000}));
  if (dtype == DType::F16) m.initializer("least", HostTensor::from<uint16_t>(dtype, {}, {0xe400}));
  if (dtype == DType::U8) m.initializer("least", HostTensor::from<uint8_t>(dtype, {}, {0}));
  m.node("Max", {"x", "least"}, {"y"});
  return m;
}

OnnxWriter classifier(int64_t size, int64_t channels) {
  OnnxWriter m;
  m.input("x", DType::F32, {1, channels, size, size});
  m.output("scores", DType::F32, {1, 4});
  m.initializer("w", eighths({8, channels, 3, 3}, 3));
  m.initializer("b", eighths({8}, 4));
  m.initializer("layer", eighths({8, 4}, 5));
  AttrMap conv;
  conv.set("pads", std::vector<int64_t>{1, 1, 1, 1});
  m.node("Conv", {"x", "w", "b"}, {"c"}, {.attrs = conv});
  m.node("Relu", {"c"}, {"r"});
  m.node("GlobalAveragePool", {"r"}, {"p"});
  m.node("Flatten", {"p"}, {"f"});
  m.node("MatMul", {"f", "layer"}, {"scores"});
  return m;
}

std::shared_ptr<const package::Package> compiled(const OnnxWriter& model,
                                                 const std::vector<std::string>& images,
                                                 const std::string& target) {
  CompileOptions options;
  options.targets = {target};
  for (const std::string& text : images) {
    auto image = parse_image(text);
    EXPECT_TRUE(image.ok()) << image.status().message();
    if (!image.ok()) return nullptr;
    options.images.push_back(*std::move(image));
  }
  const std::string bytes = model.bytes();
  auto package = compile_bytes(std::as_bytes(std::span(bytes)), options);
  EXPECT_TRUE(package.ok()) << package.status().message();
  if (!package.ok()) return nullptr;
  return std::make_shared<const package::Package>(*std::move(package));
}

Picture from_bytes(ImageFormat format, int64_t width, int64_t height,
                   const std::vector<uint8_t>& bytes, bool bt601, bool full) {
  Picture p{width, height, {}};
  const auto byte = [&](int64_t i) { return bytes[static_cast<size_t>(i)] / 255.0; };
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const int64_t i = y * width + x;
      std::array<double, 3> rgb{};
      for (int64_t c = 0; c < 3; ++c) {
        double& v = rgb[static_cast<size_t>(c)];
        if (format == ImageFormat::Rgba8) v = byte(4 * i + c);
        if (format == ImageFormat::Bgra8) v = byte(4 * i + 2 - c);
        if (format == ImageFormat::R8) v = byte(i);
        if (format == ImageFormat::Rgba16F) {
          uint16_t half = 0;
          std::memcpy(&half, bytes.data() + (4 * i + c) * 2, 2);
          v = half_to_double(half);
        }
      }
      if (format == ImageFormat::Nv12) {
        const size_t uv = static_cast<size_t>(width * height + y / 2 * width + x / 2 * 2);
        rgb = from_yuv(bytes[static_cast<size_t>(i)], bytes[uv], bytes[uv + 1], bt601, full);
      }
      p.rgb.insert(p.rgb.end(), rgb.begin(), rgb.end());
    }
  }
  return p;
}

Picture resized(const Picture& p, double x, double y, double w, double h, int64_t width,
                int64_t height, bool bilinear) {
  Picture out{width, height, {}};
  // The two neighbours along an axis, and the weight of the second one.
  struct Tap {
    int64_t first, second;
    double weight;
  };
  const auto tap = [&](int64_t i, double begin, double size, int64_t to, int64_t in) {
    const double centre = (static_cast<double>(i) + 0.5) * size / static_cast<double>(to) + begin;
    const auto last = static_cast<double>(in - 1);
    if (!bilinear) {
      const auto nearest = static_cast<int64_t>(std::clamp(std::floor(centre), 0.0, last));
      return Tap{nearest, nearest, 0};
    }
    const double at = std::clamp(std::clamp(centre - 0.5, begin, begin + size - 1), 0.0, last);
    const auto first = static_cast<int64_t>(std::floor(at));
    return Tap{first, std::min(first + 1, in - 1), at - std::floor(at)};
  };
  for (int64_t r = 0; r < height; ++r) {
    const Tap v = tap(r, y, h, height, p.height);
    for (int64_t c = 0; c < width; ++c) {
      const Tap u = tap(c, x, w, width, p.width);
      for (int64_t k = 0; k < 3; ++k) {
        const auto row = [&](int64_t at) {
          return p.at(at, u.first, k) * (1 - u.weight) + p.at(at, u.second, k) * u.weight;
        };
        out.rgb.push_back(row(v.first) * (1 - v.weight) + row(v.second) * v.weight);
      }
    }
  }
  return out;
}

}  // namespace reprise::test
