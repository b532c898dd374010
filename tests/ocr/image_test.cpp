// Pictures of reprise-ocr.
#include "apps/ocr/image.h"

#include <gtest/gtest.h>
#include <png.h>

#include "tests/support/paths.h"

namespace ocr {
namespace {

namespace test = reprise::test;

/// A picture whose red is the column and whose green is the row, both times ten.
Image ramp(int width, int height) {
  Image image(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      image.at(x, y)[0] = static_cast<uint8_t>(10 * x);
      image.at(x, y)[1] = static_cast<uint8_t>(10 * y);
    }
  }
  return image;
}

std::pair<int, int> red_and_green(const Image& image, int x, int y) {
  return {image.at(x, y)[0], image.at(x, y)[1]};
}

std::string picture(const std::string& name) {
  return test::source_dir() / "tests/ocr/files" / name;
}

TEST(ImageFiles, PngIsReadAsItWasWritten) {
  const test::TempDir dir;
  const Image image = ramp(7, 5);
  ASSERT_EQ(write_png(image, dir / "a.png").status, REPRISE_OK);
  const Result<Image> again = read_image(dir / "a.png");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->width, 7);
  EXPECT_EQ(again->height, 5);
  EXPECT_EQ(again->pixels, image.pixels);
}

TEST(ImageFiles, TransparentBecomesWhite) {
  const test::TempDir dir;
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = 2;
  png.height = 1;
  png.format = PNG_FORMAT_RGBA;
  const uint8_t pixels[] = {10, 20, 30, 255, 10, 20, 30, 0};
  const std::string path = dir / "a.png";
  ASSERT_TRUE(png_image_write_to_file(&png, path.c_str(), 0, pixels, 0, nullptr));
  const Result<Image> image = read_image(path);
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(image->pixels, (std::vector<uint8_t>{10, 20, 30, 255, 255, 255}));
}

TEST(ImageFiles, JpegIsNearlyThePng) {
  const Result<Image> jpeg = read_image(picture("page.jpg")), png = read_image(picture("page.png"));
  ASSERT_TRUE(jpeg) << jpeg.error().message;
  ASSERT_TRUE(png) << png.error().message;
  ASSERT_EQ(jpeg->pixels.size(), png->pixels.size());
  double sum = 0;
  for (size_t i = 0; i < png->pixels.size(); ++i) sum += std::abs(jpeg->pixels[i] - png->pixels[i]);
  EXPECT_LT(sum / static_cast<double>(png->pixels.size()), 3);
}

TEST(ImageFiles, DamagedFilesAreErrors) {
  const test::TempDir dir;
  for (const char* name : {"page.png", "page.jpg"}) {
    const std::string whole = test::read_file(picture(name));
    for (const size_t size : {size_t{0}, size_t{1}, size_t{9}, size_t{100}}) {
      test::write_file(dir / "cut", whole.substr(0, size));
      const Result<Image> image = read_image(dir / "cut");
      ASSERT_FALSE(image) << name << " " << size;
      EXPECT_EQ(image.error().status, REPRISE_INVALID_INPUT);
      EXPECT_NE(image.error().message.find("cut: "), std::string::npos);
    }
  }
  // A header that asks for more memory than a picture can need.
  std::string huge = test::read_file(picture("page.png"));
  huge.replace(16, 8, std::string("\x00\x0f\xff\xff\x00\x0f\xff\xff", 8));
  test::write_file(dir / "huge.png", huge);
  EXPECT_EQ(read_image(dir / "huge.png").error().status, REPRISE_INVALID_INPUT);
  test::write_file(dir / "text", "some text, which is no picture");
  EXPECT_EQ(read_image(dir / "text").error().status, REPRISE_INVALID_INPUT);
  EXPECT_EQ(read_image(dir / "none").error().status, REPRISE_IO);
  EXPECT_EQ(write_png(ramp(2, 2), dir / "no/folder.png").status, REPRISE_IO);
}

TEST(Images, ResizeInterpolatesBetweenCentres) {
  const Image twice = resize(ramp(4, 4), 8, 8);
  EXPECT_EQ(red_and_green(twice, 3, 4), std::pair(13, 18));  // 1.25 and 1.75, rounded
  EXPECT_EQ(red_and_green(twice, 0, 7), std::pair(0, 30));   // beyond the outer centres
  const Image half = resize(ramp(8, 8), 4, 4);
  EXPECT_EQ(red_and_green(half, 1, 2), std::pair(25, 45));
}

TEST(Images, CropIsUpright) {
  const Image image = ramp(20, 20);
  const Image straight = crop(image, {Point{4, 6}, {12, 6}, {12, 10}, {4, 10}});
  ASSERT_EQ(straight.width, 8);
  ASSERT_EQ(straight.height, 4);
  EXPECT_EQ(red_and_green(straight, 0, 0), std::pair(40, 60));
  EXPECT_EQ(red_and_green(straight, 7, 3), std::pair(110, 90));
  // What is tall is turned to the left: text that ran downwards is upright then.
  const Image tall = crop(image, {Point{4, 2}, {8, 2}, {8, 14}, {4, 14}});
  ASSERT_EQ(tall.width, 12);
  ASSERT_EQ(tall.height, 4);
  EXPECT_EQ(red_and_green(tall, 0, 0), std::pair(70, 20));
  EXPECT_EQ(red_and_green(tall, 11, 3), std::pair(40, 130));
  // Along a diagonal, both colours grow together.
  const Image tilted = crop(image, {Point{6, 4}, {14, 12}, {12, 14}, {4, 6}});
  const auto [red, green] = red_and_green(tilted, 8, 1);
  EXPECT_NEAR(red - green, 0, 12);
  EXPECT_GT(red, 100);
}

TEST(Images, TurnAndDraw) {
  const Image turned = turn(ramp(3, 2));
  EXPECT_EQ(red_and_green(turned, 0, 0), std::pair(20, 10));
  EXPECT_EQ(red_and_green(turned, 2, 1), std::pair(0, 0));
  Image image(10, 10);
  draw_line(image, {-5, 4}, {20, 4}, {1, 2, 3}, 1);
  EXPECT_EQ(image.at(0, 4)[2], 3);
  EXPECT_EQ(image.at(9, 4)[2], 3);
  EXPECT_EQ(image.at(5, 5)[2], 0);
}

}  // namespace
}  // namespace ocr
