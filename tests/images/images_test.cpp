// The library that decodes images, and the host kernel that opens it. tests/images/files has images
// of every format and, as .ppm, what Pillow makes of them (make_files.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <random>

#include "runtime/host/host_kernels.h"
#include "runtime/host/image_library.h"
#include "tests/support/paths.h"

extern "C" int reprise_images_decode(int version, const reprise_image_request* request);

namespace reprise::test {
namespace {

struct Decoded {
  bool ok = false;
  uint32_t height = 0, width = 0;
  std::vector<uint8_t> pixels;
  std::string error;
};

uint8_t* allocate(void* user, uint32_t height, uint32_t width) {
  auto* out = static_cast<Decoded*>(user);
  EXPECT_TRUE(out->pixels.empty()) << "allocated twice";
  out->height = height;
  out->width = width;
  out->pixels.resize(size_t{3} * height * width);
  return out->pixels.data();
}

Decoded decode(const std::string& file, uint64_t max_pixels = 100'000) {
  // A buffer of its own, so that sanitizers see reads behind the end.
  const std::vector<uint8_t> bytes(file.begin(), file.end());
  Decoded out;
  std::array<char, 200> error{};
  const reprise_image_request request{bytes.data(), bytes.size(), max_pixels,  allocate,
                                      &out,         error.data(), error.size()};
  out.ok = reprise_images_decode(kRepriseImagesVersion, &request) != 0;
  out.error = error.data();
  EXPECT_TRUE(out.ok || !out.error.empty()) << "no message";
  return out;
}

struct File {
  std::string name, bytes, expected;  // pixels
};

constexpr uint32_t kWidth = 19, kHeight = 13;

std::vector<File> files() {
  std::vector<File> out;
  const auto folder = source_dir() / "tests/images/files";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = entry.path();
    if (!std::filesystem::exists(path + ".ppm")) continue;
    const std::string ppm = read_file(path + ".ppm");
    out.push_back({entry.path().filename(), read_file(path),
                   ppm.substr(ppm.size() - size_t{3} * kWidth * kHeight)});
  }
  std::ranges::sort(out, {}, &File::name);
  return out;
}

TEST(Images, EveryFormatGivesTheExpectedPixels) {
  const std::vector<File> all = files();
  EXPECT_GT(all.size(), 30U);
  for (const File& f : all) {
    const Decoded d = decode(f.bytes);
    ASSERT_TRUE(d.ok) << f.name << ": " << d.error;
    EXPECT_EQ(d.width, kWidth) << f.name;
    EXPECT_EQ(d.height, kHeight) << f.name;
    EXPECT_EQ(std::string(d.pixels.begin(), d.pixels.end()), f.expected) << f.name;
  }
}

TEST(Images, TruncatedFilesAreErrors) {
  for (const File& f : files()) {
    for (const size_t size : {f.bytes.size() / 2, f.bytes.size() * 3 / 4, f.bytes.size() / 4}) {
      const Decoded d = decode(f.bytes.substr(0, size));
      EXPECT_FALSE(d.ok) << f.name << " of " << size << " bytes";
    }
    for (size_t size = 0; size < f.bytes.size(); size += 7) decode(f.bytes.substr(0, size));
  }
}

TEST(Images, LargeImagesAreErrors) {
  for (const File& f : files()) {
    const Decoded d = decode(f.bytes, 100);
    EXPECT_FALSE(d.ok) << f.name;
    EXPECT_EQ(d.error, "the image has 19 x 13 pixels; at most 100 are decoded") << f.name;
    EXPECT_TRUE(d.pixels.empty()) << f.name;
  }
}

TEST(Images, OtherFilesAreErrors) {
  const std::string formats = "it is not a BMP, JPEG, JPEG 2000, PNG, PNM, TIFF or WebP file";
  for (const std::string& file : {std::string(), std::string("P"), std::string("GIF89a      "),
                                  std::string(300, '\0'), std::string("RIFF\1\2\3\4WAVE")})
    EXPECT_EQ(decode(file).error, formats);
  EXPECT_EQ(decode("P6 0 5 255\n").error, "the image has no pixels");
  EXPECT_EQ(decode("P6 99999999999 5 255\n").error, "a number of the PNM file is too large");
  EXPECT_EQ(decode("P6 4000000000 4000000000 255\nabc").error, "the PNM file is truncated");
  EXPECT_EQ(decode("P2 1 1 10 11").error,
            "a sample of the PNM file is larger than its largest value");
  const reprise_image_request request{};
  EXPECT_EQ(reprise_images_decode(kRepriseImagesVersion + 1, &request), 0);
}

/// Damages bytes of every file. Sanitizers find what is wrong with reading the result.
void mutate(int count) {
  std::mt19937 rng(7);  // NOLINT(cert-msc51-cpp): the same each time
  for (const File& f : files()) {
    for (int i = 0; i < count; ++i) {
      std::string bytes = f.bytes;
      const size_t changes = 1 + rng() % 4;
      for (size_t c = 0; c < changes; ++c) {
        // Headers matter most.
        const size_t limit = rng() % 2 == 0 ? std::min<size_t>(bytes.size(), 64) : bytes.size();
        constexpr std::array<uint8_t, 6> kOdd{0, 1, 0x7f, 0x80, 0xfe, 0xff};
        char& byte = bytes[rng() % limit];
        byte = static_cast<char>(rng() % 2 == 0 ? kOdd[rng() % kOdd.size()] : rng() % 256);
      }
      if (rng() % 8 == 0) bytes.resize(rng() % bytes.size());
      const Decoded d = decode(bytes);
      EXPECT_TRUE(!d.ok || d.pixels.size() == size_t{3} * d.height * d.width) << f.name;
    }
  }
}

TEST(Images, DamagedFilesDoNoHarm) {
  mutate(200);
}

TEST(Images, DamagedFilesDoNoHarmFull) {
  mutate(20'000);
}

Result<std::vector<HostTensor>> run(const std::string& file, const std::string& format) {
  const HostTensor bytes = HostTensor::from(DType::U8, {static_cast<int64_t>(file.size())},
                                            std::vector<uint8_t>(file.begin(), file.end()));
  AttrMap attrs;
  if (!format.empty()) attrs.set("pixel_format", format);
  const HostTensor* inputs[] = {&bytes};
  return host::find("ImageDecoder")({.op = "ImageDecoder", .attrs = attrs, .inputs = inputs});
}

TEST(ImageDecoder, HasThreePixelFormats) {
  const std::string file = "P6 2 1 255\n\x10\x20\x30\xff\x01\x02";
  const auto rgb = run(file, ""), bgr = run(file, "BGR"), grey = run(file, "Grayscale");
  ASSERT_TRUE(rgb.ok() && bgr.ok() && grey.ok()) << rgb.status().message();
  const auto values = [](const HostTensor& t) {
    return std::vector<int>(t.data<uint8_t>(), t.data<uint8_t>() + t.count());
  };
  EXPECT_EQ((*rgb)[0].dims(), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(values((*rgb)[0]), (std::vector<int>{16, 32, 48, 255, 1, 2}));
  EXPECT_EQ(values((*bgr)[0]), (std::vector<int>{48, 32, 16, 2, 1, 255}));
  EXPECT_EQ((*grey)[0].dims(), (std::vector<int64_t>{1, 2, 1}));
  EXPECT_EQ(values((*grey)[0]), (std::vector<int>{29, 77}));
}

TEST(ImageDecoder, SaysWhatIsWrong) {
  const auto junk = run("junk", "RGB");
  ASSERT_FALSE(junk.ok());
  EXPECT_EQ(junk.status().code(), Code::InvalidInput);
  EXPECT_EQ(junk.status().message(),
            "the image cannot be decoded: it is not a BMP, JPEG, JPEG 2000, PNG, PNM, TIFF or WebP "
            "file");
  EXPECT_EQ(run("", "RGB").status().code(), Code::InvalidInput);
  EXPECT_EQ(run("junk", "CMYK").status().message(),
            "attribute 'pixel_format' is 'CMYK'; expected RGB, BGR or Grayscale");
}

}  // namespace
}  // namespace reprise::test
