// The numbers that a model gets of an image, and the pixels that are made of its results: on the
// host against formulas, and on every device against the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "backends/registry.h"
#include "models.h"
#include "runtime/session/session.h"

namespace reprise::test {
namespace {

/// Runs on the host, or on a device if its id is given.
std::vector<HostTensor> run(const std::shared_ptr<const package::Package>& package,
                            const std::vector<std::pair<std::string, HostTensor>>& inputs,
                            const std::string& id = {}) {
  std::shared_ptr<Device> device;
  if (!id.empty()) {
    auto opened = open_device(id);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    if (!opened.ok()) return {};
    device = opened->device;
  }
  auto session = Session::create(package, device);
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return {};
  EXPECT_EQ((*session)->variant() == "host", id.empty());
  std::vector<Binding> bindings;
  for (const auto& [name, tensor] : inputs) bindings.push_back({.name = name, .host = &tensor});
  auto results = (*session)->run(bindings);
  EXPECT_TRUE(results.ok()) << results.status().message();
  return results.ok() ? *std::move(results) : std::vector<HostTensor>();
}

std::vector<std::string> devices() {
  std::vector<std::string> ids;
  for (const DeviceInfo& d : list_devices())
    if (d.usable && d.facts.api == Api::Vulkan) ids.push_back(d.id);
  return ids;
}

/// Floats differ by one unit in the last place at most, and everything else not at all.
void expect_equal(const HostTensor& a, const HostTensor& b) {
  ASSERT_EQ(a.dims(), b.dims());
  ASSERT_EQ(a.bytes().size(), b.bytes().size());
  if (a.dtype() != DType::F32) {
    EXPECT_EQ(std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()), 0);
    return;
  }
  for (int64_t i = 0; i < a.count(); ++i) {
    const float x = a.data<float>()[i], y = b.data<float>()[i];
    if (x == y) continue;
    ASSERT_EQ(std::nextafter(x, y), y) << "element " << i << ": " << x << " and " << y;
  }
}

struct Case {
  const char* name;
  const char* options;  // after "x="
  ImageFormat format;
  int64_t width, height;  // of the image
  int64_t channels = 3;
  bool channels_last = false;
  bool bilinear = true;
  std::array<double, 4> crop{};  // x, y, width, height; none if the width is 0
  bool crop_per_run = false;
  double scale = 1;
  std::array<double, 3> mean{0, 0, 0}, std{1, 1, 1};
  bool bgr = false, bt601 = false, full = false;
};

constexpr int64_t kHeight = 6, kWidth = 8;  // of the model

std::vector<uint8_t> pixels_of(const Case& c) {
  const auto n = static_cast<size_t>(c.width * c.height);
  if (c.format == ImageFormat::Nv12) return noise(n * 3 / 2);
  if (c.format != ImageFormat::Rgba16F) return noise(n * pixel_bytes(c.format));
  std::vector<uint8_t> out = noise(n * 8);  // halves between 2^-15 and 2
  for (size_t i = 1; i < out.size(); i += 2) out[i] &= 0x3f;
  return out;
}

HostTensor image_tensor(const Case& c, const std::vector<uint8_t>& bytes) {
  const bool half = c.format == ImageFormat::Rgba16F;
  std::vector<int64_t> dims{c.height, c.width, c.format == ImageFormat::R8 ? 1 : 4};
  if (c.format == ImageFormat::Nv12) dims = {c.height / 2 * 3, c.width};
  HostTensor t(half ? DType::F16 : DType::U8, dims);
  std::memcpy(t.mutable_bytes().data(), bytes.data(), bytes.size());
  return t;
}

Picture expected_picture(const Case& c, const std::vector<uint8_t>& bytes) {
  std::vector<uint8_t> seen = bytes;
  if (c.format == ImageFormat::Nv12 && c.channels == 1)  // gray is the brightness alone
    std::fill(seen.begin() + c.width * c.height, seen.end(), uint8_t{128});
  const Picture p = from_bytes(c.format, c.width, c.height, seen, c.bt601, c.full);
  const bool crop = c.crop[2] > 0;
  const double w = static_cast<double>(c.width), h = static_cast<double>(c.height);
  return resized(p, crop ? c.crop[0] : 0, crop ? c.crop[1] : 0, crop ? c.crop[2] : w,
                 crop ? c.crop[3] : h, kWidth, kHeight, c.bilinear);
}

double expected(const Case& c, const Picture& p, int64_t y, int64_t x, int64_t channel) {
  double v = p.at(y, x, c.bgr ? 2 - channel : channel);
  if (c.channels == 1 && c.format != ImageFormat::R8 && c.format != ImageFormat::Nv12)
    v = 0.299 * p.at(y, x, 0) + 0.587 * p.at(y, x, 1) + 0.114 * p.at(y, x, 2);
  const auto i = static_cast<size_t>(channel);
  return (v * c.scale - c.mean[i]) / c.std[i];
}

class ImageNumbers : public testing::TestWithParam<Case> {};

TEST_P(ImageNumbers, AreThoseOfTheFormula) {
  const Case& c = GetParam();
  const std::vector<int64_t> dims = c.channels_last
                                        ? std::vector<int64_t>{1, kHeight, kWidth, c.channels}
                                        : std::vector<int64_t>{1, c.channels, kHeight, kWidth};
  const auto package = compiled(same(dims), {std::string("x=") + c.options});
  ASSERT_TRUE(package);
  EXPECT_EQ(package->io.inputs[0].image, c.format);
  ASSERT_FALSE(package->variants.empty());
  for (const package::Variant& v : package->variants) {
    EXPECT_EQ(v.plan.steps.size(), 1U) << v.name << ": the image is not a part of the one kernel";
  }
  const std::vector<uint8_t> bytes = pixels_of(c);
  std::vector<std::pair<std::string, HostTensor>> inputs{{"x", image_tensor(c, bytes)}};
  if (c.crop_per_run) {
    std::vector<float> rectangle(c.crop.begin(), c.crop.end());
    inputs.emplace_back("x.crop", HostTensor::from(DType::F32, {4}, rectangle));
  }
  const std::vector<HostTensor> host = run(package, inputs);
  ASSERT_EQ(host.size(), 1U);
  ASSERT_EQ(host[0].dims(), dims);
  const Picture picture = expected_picture(c, bytes);
  for (int64_t y = 0; y < kHeight; ++y) {
    for (int64_t x = 0; x < kWidth; ++x) {
      for (int64_t k = 0; k < c.channels; ++k) {
        const int64_t i =
            c.channels_last ? (y * kWidth + x) * c.channels + k : (k * kHeight + y) * kWidth + x;
        const double right = expected(c, picture, y, x, k);
        ASSERT_NEAR(static_cast<double>(host[0].data<float>()[i]), right,
                    2e-6 * (std::abs(right) + c.scale / c.std[0]))
            << "row " << y << ", column " << x << ", channel " << k;
      }
    }
  }
  for (const std::string& id : devices()) {
    SCOPED_TRACE(id);
    const std::vector<HostTensor> got = run(package, inputs, id);
    ASSERT_EQ(got.size(), 1U);
    expect_equal(got[0], host[0]);
  }
}

constexpr Case kCases[] = {
    {.name = "Rgba8", .options = "rgba8", .format = ImageFormat::Rgba8, .width = 8, .height = 6},
    {.name = "Imagenet",
     .options = "rgba8,resize=bilinear,mean=0.485:0.456:0.406,std=0.229:0.224:0.225",
     .format = ImageFormat::Rgba8,
     .width = 13,
     .height = 11,
     .mean = {0.485, 0.456, 0.406},
     .std = {0.229, 0.224, 0.225}},
    {.name = "Bgra8Nearest",
     .options = "bgra8,resize=nearest,scale=255",
     .format = ImageFormat::Bgra8,
     .width = 5,
     .height = 17,
     .bilinear = false,
     .scale = 255},
    {.name = "ColorsBgr",
     .options = "rgba8,resize=bilinear,colors=bgr,scale=255,mean=104:117:123",
     .format = ImageFormat::Rgba8,
     .width = 20,
     .height = 3,
     .scale = 255,
     .mean = {104, 117, 123},
     .bgr = true},
    {.name = "Gray",
     .options = "bgra8,resize=bilinear,mean=0.5,std=0.25",
     .format = ImageFormat::Bgra8,
     .width = 9,
     .height = 9,
     .channels = 1,
     .mean = {0.5, 0.5, 0.5},
     .std = {0.25, 0.25, 0.25}},
    {.name = "ChannelsLast",
     .options = "rgba8,resize=bilinear,layout=nhwc",
     .format = ImageFormat::Rgba8,
     .width = 12,
     .height = 10,
     .channels_last = true},
    {.name = "Half",
     .options = "rgba16f,resize=bilinear,mean=0.5,std=0.5",
     .format = ImageFormat::Rgba16F,
     .width = 7,
     .height = 7,
     .mean = {0.5, 0.5, 0.5},
     .std = {0.5, 0.5, 0.5}},
    {.name = "R8",
     .options = "r8,resize=bilinear",
     .format = ImageFormat::R8,
     .width = 11,
     .height = 7,
     .channels = 1},
    {.name = "R8ForThreeChannels",
     .options = "r8,resize=nearest",
     .format = ImageFormat::R8,
     .width = 11,
     .height = 7,
     .bilinear = false},
    {.name = "Nv12",
     .options = "nv12,resize=bilinear,mean=0.5,std=0.5",
     .format = ImageFormat::Nv12,
     .width = 14,
     .height = 10,
     .mean = {0.5, 0.5, 0.5},
     .std = {0.5, 0.5, 0.5}},
    {.name = "Nv12FullRangeBt601",
     .options = "nv12,resize=nearest,matrix=bt601,range=full",
     .format = ImageFormat::Nv12,
     .width = 6,
     .height = 14,
     .bilinear = false,
     .bt601 = true,
     .full = true},
    {.name = "Nv12SameSize",
     .options = "nv12,matrix=bt601",
     .format = ImageFormat::Nv12,
     .width = 8,
     .height = 6,
     .bt601 = true},
    {.name = "Nv12Gray",
     .options = "nv12,resize=bilinear,range=full",
     .format = ImageFormat::Nv12,
     .width = 10,
     .height = 8,
     .channels = 1,
     .full = true},
    {.name = "FixedCrop",
     .options = "rgba8,crop=3:2:8:6",
     .format = ImageFormat::Rgba8,
     .width = 12,
     .height = 9,
     .crop = {3, 2, 8, 6}},
    {.name = "FixedCropResized",
     .options = "rgba8,resize=bilinear,crop=1:2:9:5,size=12x9",
     .format = ImageFormat::Rgba8,
     .width = 12,
     .height = 9,
     .crop = {1, 2, 9, 5}},
    {.name = "CropOfTheRun",
     .options = "rgba8,resize=bilinear,crop=run",
     .format = ImageFormat::Rgba8,
     .width = 15,
     .height = 13,
     .crop = {2.5, 1.25, 9, 10.5},
     .crop_per_run = true},
    {.name = "CropOfTheRunNearest",
     .options = "bgra8,resize=nearest,crop=run",
     .format = ImageFormat::Bgra8,
     .width = 15,
     .height = 13,
     .bilinear = false,
     .crop = {4, 3, 5, 7},
     .crop_per_run = true},
    {.name = "CropOfPartsOfPixelsNearest",
     .options = "rgba8,resize=nearest,crop=run",
     .format = ImageFormat::Rgba8,
     .width = 15,
     .height = 13,
     .bilinear = false,
     .crop = {2.4, 1.3, 3.3, 0.7},
     .crop_per_run = true},
    {.name = "CropBeyondTheImage",
     .options = "rgba8,resize=bilinear,crop=run",
     .format = ImageFormat::Rgba8,
     .width = 9,
     .height = 9,
     .crop = {-4, 3, 16, 20},
     .crop_per_run = true},
};

INSTANTIATE_TEST_SUITE_P(Images, ImageNumbers, testing::ValuesIn(kCases),
                         [](const auto& at) { return std::string(at.param.name); });

TEST(ImageOutputs, AreRoundedAndLimited) {
  // Rows of [1, C, 2, 4].
  const std::vector<float> numbers{0,    1,    0.5F,     -3,   2,     NAN,  0.25F, 0.126F,
                                   0.1F, 0.2F, 0.3F,     0.4F, 0.6F,  0.7F, 0.8F,  0.9F,
                                   1,    1,    INFINITY, 0,    0.75F, 0.5F, -0.0F, 0.998F};
  const HostTensor x = HostTensor::from(DType::F32, {1, 3, 2, 4}, numbers);
  const auto byte = [](float v) {
    return v > 0 ? static_cast<uint8_t>(std::nearbyint(std::min(v * 255, 255.0F))) : uint8_t{0};
  };
  for (const bool bgra : {false, true}) {
    const auto package = compiled(same({1, 3, 2, 4}), {bgra ? "y=bgra8" : "y=rgba8"});
    ASSERT_TRUE(package);
    EXPECT_EQ(package->variants[0].plan.steps.size(), 1U);
    const std::vector<HostTensor> host = run(package, {{"x", x}});
    ASSERT_EQ(host.size(), 1U);
    ASSERT_EQ(host[0].dims(), (std::vector<int64_t>{2, 4, 4}));
    for (size_t i = 0; i < 8; ++i) {
      for (size_t c = 0; c < 3; ++c)
        EXPECT_EQ(host[0].data<uint8_t>()[4 * i + (bgra ? 2 - c : c)], byte(numbers[8 * c + i]));
      EXPECT_EQ(host[0].data<uint8_t>()[4 * i + 3], 255);
    }
    for (const std::string& id : devices())
      expect_equal(run(package, {{"x", x}}, id).at(0), host[0]);
  }
}

TEST(ImageOutputs, OfEveryFormat) {
  const HostTensor rgb = float_tensor({1, 3, 4, 4}, 0.02F),
                   gray = float_tensor({1, 1, 4, 4}, 0.05F);
  const std::pair<const char*, const HostTensor*> cases[] = {
      {"y=rgba16f", &rgb},          {"y=r8,mean=0.5,std=0.25", &gray},
      {"y=rgba8", &gray},           {"y=bgra8,colors=bgr,scale=255,mean=104:117:123", &rgb},
      {"y=rgba16f,scale=2", &gray},
  };
  for (const auto& [option, x] : cases) {
    SCOPED_TRACE(option);
    const auto package = compiled(same(x->dims()), {option});
    ASSERT_TRUE(package);
    const std::vector<HostTensor> host = run(package, {{"x", *x}});
    ASSERT_EQ(host.size(), 1U);
    for (const std::string& id : devices()) {
      SCOPED_TRACE(id);
      expect_equal(run(package, {{"x", *x}}, id).at(0), host[0]);
    }
  }
  const auto package = compiled(same({1, 1, 4, 4}), {"y=r8,mean=0.5,std=0.25"});
  const std::vector<HostTensor> host = run(package, {{"x", gray}});
  for (int64_t i = 0; i < 16; ++i) {
    const double pixel = static_cast<double>(gray.data<float>()[i]) * 0.25 + 0.5;
    EXPECT_EQ(host.at(0).data<uint8_t>()[i], std::nearbyint(std::clamp(pixel, 0.0, 1.0) * 255));
  }
}

struct Nv12Case {
  const char* options;  // after "y=nv12"
  int64_t channels;
  double kr, kb, black, luma, chroma;
  double scale = 1, mean = 0;
  bool bgr = false;
};

/// The byte of NV12 at (y, x) of its two planes together, before it is rounded.
double nv12_byte(const Nv12Case& c, const HostTensor& t, int64_t y, int64_t x) {
  const int64_t height = t.dims()[2], width = t.dims()[3];
  const auto color = [&](int64_t row, int64_t column, int64_t i) {
    const int64_t channel = c.channels == 1 ? 0 : c.bgr ? 2 - i : i;
    const int64_t at = (channel * height + row) * width + column;
    return (static_cast<double>(t.data<float>()[at]) + c.mean) / c.scale;
  };
  const auto brightness = [&](int64_t row, int64_t column) {
    return c.kr * color(row, column, 0) + (1 - c.kr - c.kb) * color(row, column, 1) +
           c.kb * color(row, column, 2);
  };
  if (y < height) return c.black + c.luma * brightness(y, x);
  const bool red = x % 2 == 1;
  double sum = 0;  // of what colour has more than brightness
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t row = 2 * (y - height) + i / 2, column = x / 2 * 2 + i % 2;
    sum += color(row, column, red ? 0 : 2) - brightness(row, column);
  }
  return 128 + c.chroma * sum / 4 / (2 * (1 - (red ? c.kr : c.kb)));
}

TEST(ImageOutputs, InPlanesOfBrightnessAndColour) {
  const Nv12Case cases[] = {
      {"", 3, 0.2126, 0.0722, 16, 219, 224},
      {",matrix=bt601,range=full", 3, 0.299, 0.114, 0, 255, 255},
      {",colors=bgr,scale=2,mean=0.25", 3, 0.2126, 0.0722, 16, 219, 224, 2, 0.25, true},
      {",matrix=bt601", 1, 0.299, 0.114, 16, 219, 224},
  };
  for (const Nv12Case& c : cases) {
    SCOPED_TRACE(c.options);
    const HostTensor x = float_tensor({1, c.channels, 4, 6}, 0.02F);
    const auto package = compiled(same(x.dims()), {std::string("y=nv12") + c.options});
    ASSERT_TRUE(package);
    const std::vector<HostTensor> host = run(package, {{"x", x}});
    ASSERT_EQ(host.size(), 1U);
    ASSERT_EQ(host[0].dims(), (std::vector<int64_t>{6, 6}));
    for (int64_t i = 0; i < 36; ++i) {
      const double byte = std::clamp(nv12_byte(c, x, i / 6, i % 6), 0.0, 255.0);
      EXPECT_NEAR(host[0].data<uint8_t>()[i], byte, 0.501) << i;
    }
    for (const std::string& id : devices()) {
      SCOPED_TRACE(id);
      expect_equal(run(package, {{"x", x}}, id).at(0), host[0]);
    }
  }
}

TEST(ImageOutputs, AnImageGoesInAndComesOutUnchanged) {
  Case c{.name = "", .options = "", .format = ImageFormat::Rgba8, .width = 8, .height = 6};
  std::vector<uint8_t> bytes = pixels_of(c);
  for (size_t i = 3; i < bytes.size(); i += 4) bytes[i] = 255;
  const HostTensor image = image_tensor(c, bytes);
  for (const DType dtype : {DType::F32, DType::F16, DType::U8}) {
    SCOPED_TRACE(std::string(name_of(dtype)));
    const auto package = compiled(same({1, 3, 6, 8}, dtype), {"x=rgba8", "y=rgba8"});
    ASSERT_TRUE(package);
    expect_equal(run(package, {{"x", image}}).at(0), image);
    for (const std::string& id : devices()) {
      SCOPED_TRACE(id);
      expect_equal(run(package, {{"x", image}}, id).at(0), image);
    }
  }
}

TEST(ImageSizes, OneSessionTakesImagesOfManySizes) {
  const auto package = compiled(classifier(8), {"x=rgba8,resize=bilinear,scale=255,mean=128"});
  ASSERT_TRUE(package);
  for (const auto& [width, height] :
       {std::pair<int64_t, int64_t>{16, 16}, {4, 32}, {16, 8}, {8, 8}}) {
    const Case c{
        .name = "", .options = "", .format = ImageFormat::Rgba8, .width = width, .height = height};
    const HostTensor image = image_tensor(c, pixels_of(c));
    const std::vector<HostTensor> host = run(package, {{"x", image}});
    for (const std::string& id : devices()) {
      SCOPED_TRACE(id);
      expect_equal(run(package, {{"x", image}}, id).at(0), host.at(0));
    }
  }
}

}  // namespace
}  // namespace reprise::test
