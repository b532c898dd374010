// The parts of reprise-ocr, without its models.
#include <gtest/gtest.h>

#include <cmath>

#include "apps/ocr/detect.h"
#include "apps/ocr/recognise.h"
#include "tests/support/paths.h"

namespace ocr {
namespace {

namespace test = reprise::test;

void expect_corner(Point found, Point expected, float tolerance) {
  EXPECT_NEAR(found.x, expected.x, tolerance);
  EXPECT_NEAR(found.y, expected.y, tolerance);
}

/// A rectangle of 40 by 10 around (50, 30), turned by an angle.
Rectangle bar(float degrees) {
  const float a = degrees * static_cast<float>(M_PI) / 180;
  return {{50, 30}, {std::cos(a), std::sin(a)}, 40, 10};
}

TEST(Geometry, TheHullHasOnlyCorners) {
  std::vector<Point> grid;
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 5; ++x) grid.push_back({static_cast<float>(x), static_cast<float>(y)});
  EXPECT_EQ(convex_hull(grid).size(), 4u);
  EXPECT_EQ(convex_hull({{1, 1}, {1, 1}, {2, 3}}).size(), 2u);
}

TEST(Geometry, FindsRectanglesAtAnyAngle) {
  for (const float degrees : {0.0F, 17.0F, -30.0F, 44.0F}) {
    std::vector<Point> points{{50, 30}};
    for (const Point p : bar(degrees).corners()) points.push_back(p);
    const Rectangle r = smallest_rectangle(points);
    EXPECT_NEAR(r.width, 40, 1e-3F) << degrees;
    EXPECT_NEAR(r.height, 10, 1e-3F) << degrees;
    for (size_t i = 0; i < 4; ++i) expect_corner(r.corners()[i], bar(degrees).corners()[i], 1e-3F);
  }
  // Beyond 45 degrees, what was the height is the width.
  const Quad steep = bar(60).corners();
  EXPECT_NEAR(smallest_rectangle({steep.begin(), steep.end()}).height, 40, 1e-3F);
  const Rectangle dot = smallest_rectangle({{3, 4}});
  EXPECT_EQ(dot.width, 0);
  expect_corner(dot.centre, {3, 4}, 0);
}

TEST(Geometry, RectanglesGrowAndContain) {
  const Rectangle grown = bar(20).grown(5);
  EXPECT_EQ(grown.width, 50);
  EXPECT_EQ(grown.height, 20);
  EXPECT_TRUE(grown.contains(bar(20).corners()[2]));
  EXPECT_FALSE(bar(20).contains(grown.corners()[2]));
}

/// A map of 100 by 60 with bars of this value.
std::vector<float> map_of(const std::vector<Rectangle>& bars, float value) {
  std::vector<float> map(6000);
  for (int i = 0; i < 6000; ++i) {
    const Point p{static_cast<float>(i % 100), static_cast<float>(i / 100)};
    for (const Rectangle& r : bars)
      if (r.contains(p)) map[static_cast<size_t>(i)] = value;
  }
  return map;
}

TEST(Detect, BoxesAreTheGrownBars) {
  const auto boxes = find_boxes(map_of({bar(15)}, 0.9F), 100, 60, 200, 180, {});
  ASSERT_EQ(boxes.size(), 1u);
  // The margin is twice the area over the circumference: 8 pixels of the map.
  const Quad expected = bar(15).grown(8).corners();
  for (size_t i = 0; i < 4; ++i)
    expect_corner(boxes[0][i], {expected[i].x * 2, expected[i].y * 3}, 7);  // two pixels of the map
}

TEST(Detect, DropsWhatIsNoText) {
  const auto count = [](const std::vector<Rectangle>& bars, float value) {
    return find_boxes(map_of(bars, value), 100, 60, 100, 60, {}).size();
  };
  EXPECT_EQ(count({bar(0)}, 0.6F), 1u);
  EXPECT_EQ(count({bar(0)}, 0.4F), 0u) << "the mean is too low";
  EXPECT_EQ(count({bar(0)}, 0.2F), 0u) << "below the threshold of a pixel";
  EXPECT_EQ(count({{{50, 30}, {1, 0}, 40, 1}}, 0.9F), 0u) << "too thin";
  EXPECT_EQ(count({}, 0), 0u);
}

TEST(Detect, ComponentsTouchAtCorners) {
  std::vector<float> map(6000);
  const auto fill = [&](int left, int top) {
    for (int y = top; y < top + 10; ++y)
      for (int x = left; x < left + 10; ++x) map[static_cast<size_t>(y * 100 + x)] = 1;
  };
  fill(10, 10);
  fill(20, 20);
  DetectOptions any;
  any.certainty = 0;
  EXPECT_EQ(find_boxes(map, 100, 60, 100, 60, any).size(), 1u);
  fill(40, 20);
  EXPECT_EQ(find_boxes(map, 100, 60, 100, 60, any).size(), 2u);
}

TEST(Detect, BoxesAreInReadingOrderAndInsideThePicture) {
  const Rectangle right{{75, 11}, {1, 0}, 20, 8}, left{{20, 13}, {1, 0}, 20, 8};
  const Rectangle below{{8, 55}, {1, 0}, 16, 10};
  const auto boxes = find_boxes(map_of({right, left, below}, 0.9F), 100, 60, 100, 60, {});
  ASSERT_EQ(boxes.size(), 3u);
  EXPECT_LT(boxes[0][0].x, 30);
  EXPECT_GT(boxes[1][0].x, 50);
  EXPECT_EQ(boxes[2][2].y, 60);
  EXPECT_EQ(boxes[2][0].x, 0);
}

TEST(Detect, InputsAreMultiplesOf32) {
  const auto size = [](int width, int height, int side) {
    const Batch b = detection_input(Image(width, height), side);
    return std::pair(b.width, b.height);
  };
  EXPECT_EQ(size(1920, 1080, 960), std::pair(960, 544));
  EXPECT_EQ(size(300, 100, 960), std::pair(608, 192)) << "at most twice the size";
  EXPECT_EQ(size(1000, 5, 960), std::pair(960, 32));
}

TEST(Batch, IsBlueFirstBetweenMinusOneAndOne) {
  Image image(2, 1);
  image.pixels = {255, 0, 51, 0, 255, 0};
  Batch batch(2, 1, 3);
  batch.set(1, image);
  const std::vector<float> expected = {0,
                                       0,
                                       0,
                                       0,
                                       0,
                                       0,
                                       0,
                                       0,
                                       0,  // the first picture
                                       51 / 127.5F - 1,
                                       -1,
                                       0,
                                       -1,
                                       1,
                                       0,
                                       1,
                                       -1,
                                       0};
  EXPECT_EQ(batch.values, expected);
}

TEST(Alphabet, DecodesRepetitionsAndBlanks) {
  const Alphabet alphabet("a\n\xc3\xa9\nz");
  ASSERT_EQ(alphabet.classes(), 5u);  // blank, a, é, z, space
  std::vector<float> steps;
  float score = 0.9F;
  for (const size_t label : {0, 1, 1, 0, 1, 2, 4, 3, 0}) {
    std::vector<float> step(5, 0.02F);
    step[label] = score;
    steps.insert(steps.end(), step.begin(), step.end());
    score -= 0.05F;
  }
  const Text text = alphabet.decode(steps);
  EXPECT_EQ(text.text, "aa\xc3\xa9 z");
  EXPECT_NEAR(text.score, (0.85F + 0.7F + 0.65F + 0.6F + 0.55F) / 5, 1e-5F);
  EXPECT_EQ(alphabet.decode({}).text, "");
}

TEST(Alphabet, IsReadFromTheMetadataOfModels) {
  const test::TempDir dir;
  // Fields of a ModelProto: ir_version, a graph that is skipped, and two entries of metadata_props.
  const std::string other("\x72\x06\x0a\x01k\x12\x01v", 8);
  const std::string entry =
      std::string("\x72\x12\x0a\x09", 4) + "character" + "\x12\x05" + "x\ny\nz";
  const std::string model = std::string("\x08\x08\x3a\x03", 4) + "abc" + other + entry;
  test::write_file(dir / "rec.onnx", model);
  const Result<Alphabet> alphabet = Alphabet::from_model(dir / "rec.onnx");
  ASSERT_TRUE(alphabet) << alphabet.error().message;
  EXPECT_EQ(alphabet->classes(), 5u);
  ASSERT_EQ(alphabet->write(dir / "alphabet.txt").status, REPRISE_OK);
  EXPECT_EQ(test::read_file(dir / "alphabet.txt"), "x\ny\nz");
  EXPECT_EQ(Alphabet::read(dir / "alphabet.txt")->classes(), 5u);
  for (size_t size = 0; size < model.size(); ++size) {
    test::write_file(dir / "cut.onnx", model.substr(0, size));
    EXPECT_EQ(Alphabet::from_model(dir / "cut.onnx").error().status, REPRISE_INVALID_MODEL) << size;
  }
  EXPECT_EQ(Alphabet::from_model(dir / "none.onnx").error().status, REPRISE_IO);
}

TEST(Lines, AreScaledAndGrouped) {
  EXPECT_EQ(line_of_batch(Image(100, 24), 1000).width, 200);
  EXPECT_EQ(line_of_batch(Image(100, 24), 150).width, 150);
  EXPECT_EQ(line_of_batch(Image(1, 500), 150).width, 1);
  // At the height of batches: 432, 96, 480, 960 and 480 wide.
  const std::vector<Image> lines = {Image(90, 10), Image(20, 10), Image(100, 10), Image(200, 10),
                                    Image(100, 10)};
  using Groups = std::vector<std::vector<size_t>>;
  EXPECT_EQ(group_by_width(lines, 2), (Groups{{1}, {0, 2}, {4}, {3}}));
  EXPECT_EQ(group_by_width(lines, 6), (Groups{{1}, {0, 2, 4}, {3}}));
  EXPECT_EQ(group_by_width({Image(20, 10), Image(60, 10)}, 6), (Groups{{0, 1}}))
      << "both are narrower than a batch";
  EXPECT_EQ(group_by_width({}, 6), Groups{});
}

}  // namespace
}  // namespace ocr
