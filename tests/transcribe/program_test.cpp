// reprise-transcribe as users run it: it reads back what reprise-say says.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/samples/wav.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace transcribe {
namespace {

namespace fs = std::filesystem;
namespace test = reprise::test;
using Json = nlohmann::json;

constexpr const char* kText = "The quick brown fox jumps over the lazy dog. It was a sunny day.";

class TranscribingFull : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const fs::path cache = test::source_dir() / ".cache";
    if (!fs::exists(cache / "whisper/model.bin") || !fs::exists(cache / "voice/voice.onnx")) return;
    folder_ = std::make_unique<test::TempDir>();
    for (const char* name : {"whisper/model.bin", "whisper/vocabulary.txt", "whisper/config.json",
                             "voice/voice.onnx", "voice/voice.onnx.json"})
      fs::create_symlink(cache / name, path(fs::path(name).filename()));
    said_ = test::run_process({test::program("reprise-say"), kText, "--voice", path("voice.onnx"),
                               "--out", path("said.wav"), "--device", "host"});
  }
  static void TearDownTestSuite() { folder_.reset(); }

  void SetUp() override {
    if (!folder_) GTEST_SKIP() << "models are missing: tools/models fetches voice and whisper";
    if (said_.err.find("built without espeak-ng") != std::string::npos) GTEST_SKIP() << said_.err;
    ASSERT_EQ(said_.status, 0) << said_.err;
  }

  static std::string path(const std::string& name) { return *folder_ / name; }

  static Json heard(const std::string& device) {
    const test::ProcessResult r = test::run_process(
        {test::program("reprise-transcribe"), path("said.wav"), "--model", path(""), "--device",
         device, "--json", path("heard.json"), "--srt", path("heard.srt")});
    EXPECT_EQ(r.status, 0) << r.err;
    return Json::parse(test::read_file(path("heard.json")), nullptr, false);
  }

  static std::vector<int64_t> ids_of(const Json& json) {
    std::vector<int64_t> ids;
    for (const Json& segment : json["segments"])
      for (const Json& id : segment["ids"]) ids.push_back(id);
    return ids;
  }

  static std::unique_ptr<test::TempDir> folder_;
  static test::ProcessResult said_;
};
std::unique_ptr<test::TempDir> TranscribingFull::folder_;
test::ProcessResult TranscribingFull::said_;

TEST_F(TranscribingFull, HearsWhatIsSaid) {
  const Json json = heard("host");
  std::string text;
  double last = 0;
  for (const Json& s : json["segments"]) {
    text += (text.empty() ? "" : " ") + s["text"].get<std::string>();
    EXPECT_GE(s["begin"].get<double>(), last);
    EXPECT_GT(s["end"].get<double>(), s["begin"].get<double>());
    last = s["end"];
  }
  EXPECT_EQ(text, kText);
  EXPECT_LT(last, 10);
  const std::string srt = test::read_file(path("heard.srt"));
  EXPECT_EQ(srt.rfind("1\n00:00:00,", 0), 0u) << srt;
  EXPECT_NE(srt.find(" --> 00:00:0"), std::string::npos) << srt;
}

// An independent spectrogram, and CTranslate2's own Whisper.
constexpr const char* kOracle = R"(
import sys, wave
import ctranslate2
import numpy as np
with wave.open(sys.argv[2]) as file:
    rate = file.getframerate()
    sound = np.frombuffer(file.readframes(file.getnframes()), np.int16) / 32768
assert rate == 16000
sound = np.pad(sound, (0, 480000 - len(sound)))
padded = np.pad(sound, 200, mode="reflect")
frames = np.lib.stride_tricks.sliding_window_view(padded, 400)[::160][:3000]
power = np.abs(np.fft.rfft(frames * np.hanning(401)[:-1])) ** 2
mel = np.linspace(0, 15 + np.log(8) / (np.log(6.4) / 27), 82)
edges = np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))
bins = np.linspace(0, 8000, 201)
filters = np.array([
    np.interp(bins, edges[i : i + 3], [0, 2 / (edges[i + 2] - edges[i]), 0]) for i in range(80)
])
log = np.log10(np.maximum(filters @ power.T, 1e-10))
features = ((np.maximum(log, log.max() - 8) + 4) / 4).astype(np.float32)
model = ctranslate2.models.Whisper(sys.argv[1], compute_type="float32")
result = model.generate(
    ctranslate2.StorageView.from_array(features[None].copy()), [[50257]], beam_size=1
)
print(*(i for i in result[0].sequences_ids[0] if i < 50256))
)";

TEST_F(TranscribingFull, AgreesWithCTranslate2) {
  const fs::path python = test::source_dir() / ".cache/reference/bin/python";
  if (!fs::exists(python) || test::run_process({python, "-c", "import ctranslate2"}).status != 0)
    GTEST_SKIP() << "ctranslate2 is missing: tools/models reference installs it";
  // The same samples for both: reprise-say writes 22,050 per second.
  const auto sound = samples::read_wav(path("said.wav"));
  ASSERT_TRUE(sound);
  ASSERT_EQ(samples::write_wav(*samples::resampled(*sound, 16000), path("said.wav")).status,
            REPRISE_OK);
  const test::ProcessResult r =
      test::run_process({python, "-c", kOracle, path(""), path("said.wav")});
  ASSERT_EQ(r.status, 0) << r.err;
  std::istringstream in(r.out);
  std::vector<int64_t> expected;
  for (int64_t id = 0; in >> id;) expected.push_back(id);
  EXPECT_GT(expected.size(), 10u);
  EXPECT_EQ(ids_of(heard("host")), expected);
}

TEST_F(TranscribingFull, EachDeviceHearsTheSame) {
  const std::vector<int64_t> host = ids_of(heard("host"));
  EXPECT_EQ(ids_of(heard("vulkan")), host);
}

}  // namespace
}  // namespace transcribe
