// reprise-ocr as users run it: it finds the text of a picture, on every device.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/ocr/image.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ocr {
namespace {

namespace fs = std::filesystem;
namespace test = reprise::test;

using Json = nlohmann::json;

const std::vector<std::string>& lines_of_page() {
  static const std::vector<std::string> lines = {
      "Harbour Museum",     "Open daily from 10 to 18",
      "Adults 12.50",       "Children free",
      "EMERGENCY EXIT",     "Summer exhibition",
      "Ticket number 4071", "Please do not touch the ships"};
  return lines;
}

std::string picture_file(const std::string& name) {
  return test::source_dir() / "tests/ocr/files" / name;
}

/// The folder of tools/models.
fs::path fetched() {
  return test::source_dir() / ".cache/ocr";
}

test::ProcessResult run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), test::program("reprise-ocr").string());
  return test::run_process(arguments);
}

/// The ids of all devices that can be used.
std::vector<std::string> devices() {
  reprise_device_info infos[16];
  for (reprise_device_info& info : infos) info = REPRISE_DEVICE_INFO_INIT;
  size_t count = 0;
  EXPECT_EQ(reprise_list_devices(infos, 16, &count, nullptr), REPRISE_OK);
  std::vector<std::string> ids;
  for (size_t i = 0; i < std::min<size_t>(count, 16); ++i) {
    const std::string id = infos[i].id;
    if (infos[i].usable && id.rfind("cuda", 0) != 0) ids.push_back(id);
  }
  return ids;
}

/// Lines, sorted, so that it does not matter which line is first.
std::vector<std::string> sorted(std::vector<std::string> lines) {
  std::sort(lines.begin(), lines.end());
  return lines;
}

std::vector<std::string> texts(const Json& result) {
  std::vector<std::string> out;
  for (const Json& line : result["lines"]) out.push_back(line["text"]);
  return out;
}

TEST(Program, SaysWhatIsWrong) {
  const test::TempDir dir;
  const auto fails = [&](const std::vector<std::string>& arguments, int status,
                         const std::string& message) {
    const test::ProcessResult r = run(arguments);
    EXPECT_EQ(r.status, status) << message;
    EXPECT_NE((r.out + r.err).find(message), std::string::npos) << r.out << r.err;
  };
  const std::string models = dir.path();
  fails({picture_file("page.png"), "--models", models}, 4, "tools/models ocr");
  fails({picture_file("none.png"), "--models", models}, 4, "none.png: cannot be opened");
  fails({test::source_dir() / "README.md", "--models", models}, 3, "neither a PNG nor a JPEG file");
  fails({picture_file("page.png")}, 2, "--models");
  fails({picture_file("page.png"), "--models", models, "--side", "0"}, 2, "--side");
  test::write_file(dir / "det.rpk", "junk");
  fails({picture_file("page.png"), "--models", models}, 3, "det.rpk");
}

class OnDevices : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!fs::exists(fetched() / "rec.onnx")) return;
    // Packages are kept from test to test, but not in the source tree.
    folder_ = std::make_unique<test::TempDir>();
    for (const char* name : {"det.onnx", "cls.onnx", "rec.onnx"})
      fs::copy_file(fetched() / name, *folder_ / name);
  }
  static void TearDownTestSuite() { folder_.reset(); }

  void SetUp() override {
    if (!folder_) GTEST_SKIP() << "the models of PP-OCR are missing: tools/models ocr fetches them";
  }

  static Json read(const std::string& image, const std::string& device,
                   const std::vector<std::string>& options = {}) {
    std::vector<std::string> arguments{image, "--models", folder_->path(), "--json",
                                       "-",   "--device", device,          "--validation"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const test::ProcessResult r = run(arguments);
    EXPECT_EQ(r.status, 0) << r.err;
    return r.status == 0 ? Json::parse(r.out) : Json{{"lines", Json::array()}};
  }

  static std::unique_ptr<test::TempDir> folder_;
};
std::unique_ptr<test::TempDir> OnDevices::folder_;

TEST_F(OnDevices, FullReadsThePageOnEveryDevice) {
  for (const std::string& device : devices()) {
    const Json result = read(picture_file("page.png"), device);
    EXPECT_EQ(sorted(texts(result)), sorted(lines_of_page())) << device;
    for (const Json& line : result["lines"]) {
      EXPECT_GT(line["score"], 0.9) << device << line;
      EXPECT_EQ(line["turned"],
                line["text"] == "Ticket number 4071" || line["text"] == "EMERGENCY EXIT")
          << device << line;
    }
  }
}

std::vector<std::string> without_spaces(std::vector<std::string> lines) {
  for (std::string& line : lines) std::erase(line, ' ');
  return sorted(lines);
}

TEST_F(OnDevices, FullReadsJpegsInAnyBatch) {
  for (const char* batch : {"1", "16"}) {
    const Json result = read(picture_file("page.jpg"), "host", {"--batch", batch});
    // In this picture, the model overlooks narrow spaces; those of more lines in RapidOCR.
    EXPECT_EQ(without_spaces(texts(result)), without_spaces(lines_of_page())) << batch;
  }
}

TEST_F(OnDevices, FullDrawsBoxesAroundLines) {
  const test::TempDir dir;
  const Json result = read(picture_file("page.png"), "host", {"--draw", dir / "boxes.png"});
  const Result<Image> before = read_image(picture_file("page.png")),
                      after = read_image(dir / "boxes.png");
  ASSERT_TRUE(after) << after.error().message;
  // The middle of a side may be rounded to a neighbour of the pixel that was drawn.
  const auto is_frame = [&](float x, float y) {
    const int column = static_cast<int>(std::lround(x)), row = static_cast<int>(std::lround(y));
    for (int py = row - 1; py <= row + 1; ++py) {
      for (int px = column - 1; px <= column + 1; ++px) {
        const uint8_t* p = after->at(px, py);
        if (p[0] == 226 && p[1] == 61 && p[2] == 40) return true;
      }
    }
    return false;
  };
  for (const Json& line : result["lines"]) {
    const Json& box = line["box"];
    for (int i = 0; i < 4; ++i) {
      const float x = (box[i][0].get<float>() + box[(i + 1) % 4][0].get<float>()) / 2;
      const float y = (box[i][1].get<float>() + box[(i + 1) % 4][1].get<float>()) / 2;
      EXPECT_TRUE(is_frame(x, y)) << line;
    }
  }
  size_t changed = 0;
  for (size_t i = 0; i < before->pixels.size(); i += 3)
    changed += !std::equal(&before->pixels[i], &before->pixels[i] + 3, &after->pixels[i]);
  EXPECT_LT(changed, before->pixels.size() / 3 / 20) << "only frames are drawn";
}

TEST_F(OnDevices, FullCompilesOnceAndShipsPackages) {
  read(picture_file("page.png"), "host", {"--side", "320"});
  const test::TempDir shipped;
  for (const char* name : {"det.rpk", "cls.rpk", "rec.rpk", "alphabet.txt"})
    fs::copy_file(folder_->path() / name, shipped / name);
  const test::ProcessResult r = run(
      {picture_file("page.png"), "--models", shipped.path(), "--device", "host", "--side", "320"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.err.find("compiling"), std::string::npos) << r.err;
  EXPECT_NE(r.out.find("Harbour Museum\n"), std::string::npos) << r.out;
}

constexpr const char* kOracle = R"(
import json, sys
from rapidocr_onnxruntime import RapidOCR
result, _ = RapidOCR()(sys.argv[1])
print(json.dumps([{"text": text, "box": box} for box, text, _ in result]))
)";

TEST_F(OnDevices, FullAgreesWithRapidOcr) {
  const fs::path python = test::source_dir() / ".cache/reference/bin/python";
  if (!fs::exists(python))
    GTEST_SKIP() << "rapidocr-onnxruntime is missing: tools/models reference installs it";
  const test::ProcessResult answer =
      test::run_process({python, "-c", kOracle, picture_file("page.png")});
  ASSERT_EQ(answer.status, 0) << answer.err;
  const Json expected = Json::parse(answer.out);
  const Json found = read(picture_file("page.png"), "host")["lines"];
  ASSERT_EQ(found.size(), expected.size());
  for (const Json& line : expected) {
    const auto same = std::find_if(found.begin(), found.end(),
                                   [&](const Json& f) { return f["text"] == line["text"]; });
    ASSERT_NE(same, found.end()) << line;
    // It looks in a larger picture, so that corners differ by a few pixels.
    for (int i = 0; i < 4; ++i) {
      for (int axis = 0; axis < 2; ++axis)
        EXPECT_NEAR((*same)["box"][i][axis].get<float>(), line["box"][i][axis].get<float>(), 8)
            << line;
    }
  }
}

}  // namespace
}  // namespace ocr
