// reprise-live in a window that nobody sees: what the model was given, what it returned, and what
// was shown.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "apps/live/text.h"
#include "apps/ocr/image.h"
#include "reprise/compiler.hpp"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace live {
namespace {

namespace test = reprise::test;
using ocr::Image;

constexpr int kWidth = 160, kHeight = 90;

bool has_display_server() {
  return std::filesystem::exists("/usr/bin/Xvfb");
}

/// Leaves only lavapipe, if it is there: SwiftShader crashes when it is asked about windows of X11.
std::vector<std::string> drivers() {
  const std::filesystem::path folder = "/usr/share/vulkan/icd.d";
  if (!std::filesystem::exists(folder)) return {};
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string path = file.path();
    if (path.find("lvp_icd") != std::string::npos)
      return {"VK_ICD_FILENAMES=" + path, "VK_DRIVER_FILES=" + path};
  }
  return {};
}

test::ProcessResult run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {test::source_dir() / "tests/live/with_display", test::program("reprise-live")});
  return test::run_process(arguments, drivers());
}

reprise::Package compile() {
  auto package = reprise::compile_file(test::source_dir() / "apps/live/upscale.onnx");
  EXPECT_TRUE(package) << package.error().message;
  return std::move(*package);
}

Image read(const std::string& path) {
  auto image = ocr::read_image(path);
  EXPECT_TRUE(image) << image.error().message;
  return image ? *image : Image();
}

/// The result of the host for a picture, as RGBA.
std::vector<uint8_t> reference(const reprise::Package& package, const Image& picture) {
  std::vector<uint8_t> pixels;
  for (size_t i = 0; i < picture.pixels.size(); i += 3) {
    pixels.insert(pixels.end(), &picture.pixels[i], &picture.pixels[i] + 3);
    pixels.push_back(255);
  }
  const auto device = reprise::Device::open("host");
  auto session = reprise::Session::create(package, *device);
  EXPECT_TRUE(session) << session.error().message;
  const auto out = session->run({{"rgba", pixels.data(), {picture.height, picture.width, 4}}});
  EXPECT_TRUE(out) << out.error().message;
  return out->front().as<uint8_t>();
}

int difference(const uint8_t* a, const uint8_t* b) {
  return std::max({std::abs(a[0] - b[0]), std::abs(a[1] - b[1]), std::abs(a[2] - b[2])});
}

/// Of the half of two pictures that begins in column `left`, below the text and right of the line
/// between the halves.
double mean_difference(const Image& a, const Image& b, int left) {
  double sum = 0;
  int count = 0;
  for (int y = a.height / 4; y < a.height; ++y) {
    for (int x = left + 2; x < left + a.width / 2; ++x, ++count)
      sum += difference(a.at(x, y), b.at(x, y));
  }
  return sum / count;
}

TEST(Text, WritesLetters) {
  Pixels panel(2, 1, 1);
  EXPECT_EQ(panel.width(), 20u);
  panel.write("1t", 0);
  std::string drawn;
  for (uint32_t y = 0; y < panel.height(); ++y) {
    for (uint32_t x = 0; x < panel.width(); ++x)
      drawn += panel.bytes()[(y * panel.width() + x) * 4] > 128 ? '#' : '.';
    drawn += '\n';
  }
  const std::string row = "....................\n";
  EXPECT_EQ(drawn, row + row + row + row +
                       "......#...#####.....\n"
                       ".....##.....#.......\n"
                       "......#.....#.......\n"
                       "......#.....#.......\n"
                       "......#.....#.......\n"
                       "......#.....#.......\n"
                       ".....###....#.......\n" +
                       row + row + row + row);
}

TEST(Live, FullShowsWhatTheModelReturns) {
  if (!has_display_server()) GTEST_SKIP() << "Xvfb is missing: install xvfb";
  const test::TempDir dir;
  const reprise::Package package = compile();
  ASSERT_EQ(package.save(dir / "upscale.rpk").status, REPRISE_OK);
  const test::ProcessResult r =
      run({"--package", dir / "upscale.rpk", "--width", std::to_string(kWidth), "--height",
           std::to_string(kHeight), "--frames", "8", "--screenshot", dir / "screen.png",
           "--save-input", dir / "in.png", "--save-output", dir / "out.png", "--validation"});
  ASSERT_EQ(r.status, 0) << r.out << r.err;
  EXPECT_NE(r.out.find("without the model "), std::string::npos) << r.out;

  const Image in = read(dir / "in.png"), out = read(dir / "out.png"),
              screen = read(dir / "screen.png");
  ASSERT_EQ(std::pair(in.width, in.height), std::pair(kWidth, kHeight));
  ASSERT_EQ(std::pair(out.width, out.height), std::pair(2 * kWidth, 2 * kHeight));
  ASSERT_EQ(std::pair(screen.width, screen.height), std::pair(4 * kWidth, 4 * kHeight));
  // The renderer drew the scene: the hub of the wheel and the sky beside it.
  const auto at = [](const Image& image, float x, float y) {  // in heights from the centre
    const float h = static_cast<float>(image.height);
    return image.at(static_cast<int>(static_cast<float>(image.width) / 2 + x * h),
                    static_cast<int>(h / 2 + y * h));
  };
  const uint8_t hub[] = {242, 242, 235}, rim[] = {140, 31, 31};
  EXPECT_LE(difference(at(in, -0.42F, -0.04F), hub), 1);
  EXPECT_LE(difference(at(in, -0.42F, 0.26F), rim), 1);

  // What the model made of it in the renderer's command buffer is what it should be.
  const std::vector<uint8_t> expected = reference(package, in);
  ASSERT_EQ(expected.size(), out.pixels.size() / 3 * 4);
  for (size_t i = 0; i < out.pixels.size() / 3; ++i) {
    ASSERT_LE(difference(&out.pixels[3 * i], &expected[4 * i]), 1) << "pixel " << i;
    ASSERT_EQ(expected[4 * i + 3], 255);
  }
  // The window shows the picture on the left, enlarged, and the model's on the right.
  const Image plain = ocr::resize(in, screen.width, screen.height);
  const Image better = ocr::resize(out, screen.width, screen.height);
  EXPECT_LT(mean_difference(screen, plain, 0), 1);
  EXPECT_LT(mean_difference(screen, better, screen.width / 2), 1);
  EXPECT_GT(mean_difference(screen, plain, screen.width / 2), 2) << "it adds something";
  // Above the left half there is text.
  int white = 0;
  for (int y = 0; y < 40; ++y)
    for (int x = 0; x < 200; ++x) white += screen.at(x, y)[0] == 240;
  EXPECT_GT(white, 100);
  // Labels and a line tell the halves apart.
  const auto letters = [&](int left) {
    int count = 0;
    for (int y = 40; y < 60; ++y)
      for (int x = left; x < left + 128; ++x) count += screen.at(x, y)[0] == 240;
    return count;
  };
  EXPECT_GT(letters(0), 100);
  EXPECT_GT(letters(screen.width / 2 + 2), 50);
  for (int y = 0; y < screen.height; ++y) EXPECT_EQ(screen.at(screen.width / 2, y)[0], 240) << y;
}

TEST(Live, FullSaysWhatIsWrong) {
  const test::TempDir dir;
  EXPECT_EQ(
      test::run_process({test::program("reprise-live"), "--package", dir / "none.rpk"}).status, 4);
  if (!has_display_server()) GTEST_SKIP() << "Xvfb is missing: install xvfb";
  // A model of another kind.
  const auto other = reprise::compile_file(test::onnx_suite_dir() / "node/test_sigmoid/model.onnx");
  ASSERT_TRUE(other) << other.error().message;
  ASSERT_EQ(other->save(dir / "other.rpk").status, REPRISE_OK);
  const test::ProcessResult r = run({"--package", dir / "other.rpk", "--frames", "2"});
  EXPECT_EQ(r.status, 3) << r.err;
  EXPECT_NE(r.err.find("expected pixels, uint8[height, width, 4]"), std::string::npos) << r.err;
  const test::ProcessResult blind =
      test::run_process({test::program("reprise-live"), "--package", dir / "other.rpk"},
                        {"DISPLAY=", "SDL_VIDEODRIVER=x11"});
  EXPECT_EQ(blind.status, 4);
  EXPECT_NE(blind.err.find("there is no display"), std::string::npos) << blind.err;
}

}  // namespace
}  // namespace live
