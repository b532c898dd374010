// reprise-say with its voice, as users run it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/samples/wav.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace say {
namespace {

namespace fs = std::filesystem;
namespace test = reprise::test;
using Json = nlohmann::json;

constexpr const char* kPhonemes = "həlˈoʊ, wˈɜːld.";

/// The folder of tools/models.
fs::path fetched() {
  return test::source_dir() / ".cache/voice";
}

class SayingFull : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!fs::exists(fetched() / "voice.onnx")) return;
    folder_ = std::make_unique<test::TempDir>();
    for (const char* name : {"voice.onnx", "voice.onnx.json"})
      fs::create_symlink(fetched() / name, std::string(*folder_ / name));
    const test::ProcessResult first = run({"--phonemes", kPhonemes, "--device", "host"});
    ASSERT_EQ(first.status, 0) << first.err;
    EXPECT_NE(first.err.find("compiling"), std::string::npos) << first.err;
  }
  static void TearDownTestSuite() { folder_.reset(); }

  void SetUp() override {
    if (!folder_) GTEST_SKIP() << "the voice is missing: tools/models voice fetches it";
  }

  static std::string path(const std::string& name) { return *folder_ / name; }

  static test::ProcessResult run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), test::program("reprise-say"));
    arguments.insert(arguments.end(), {"--voice", path("voice.onnx"), "--out", path("out.wav")});
    return test::run_process(arguments);
  }

  /// What it writes, with noise or without.
  static samples::Sound sound_of(std::vector<std::string> arguments, bool noise = false) {
    if (!noise) arguments.insert(arguments.end(), {"--noise", "0", "--rhythm-noise", "0"});
    const test::ProcessResult r = run(arguments);
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(r.err.find("compiling"), std::string::npos) << "the package is kept: " << r.err;
    const auto sound = samples::read_wav(path("out.wav"));
    EXPECT_TRUE(sound);
    return sound ? *sound : samples::Sound();
  }

  static std::unique_ptr<test::TempDir> folder_;
};
std::unique_ptr<test::TempDir> SayingFull::folder_;

/// Samples of 16 bits, which differ by rounding.
void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  float worst = 0;
  for (size_t i = 0; i < found.size(); ++i)
    worst = std::max(worst, std::abs(found[i] - expected[i]));
  EXPECT_LE(worst, 1e-3F);
}

float loudest(const std::vector<float>& samples) {
  float most = 0;
  for (const float s : samples) most = std::max(most, std::abs(s));
  return most;
}

TEST_F(SayingFull, SpeedDecidesTheLength) {
  const samples::Sound normal = sound_of({"--phonemes", kPhonemes, "--device", "host"});
  EXPECT_EQ(normal.rate, 22050);
  EXPECT_GT(loudest(normal.samples), 0.1F);
  const samples::Sound fast =
      sound_of({"--phonemes", kPhonemes, "--device", "host", "--speed", "2"});
  const double ratio =
      static_cast<double>(normal.samples.size()) / static_cast<double>(fast.samples.size());
  EXPECT_GT(ratio, 1.6);
  EXPECT_LT(ratio, 2.4);
}

TEST_F(SayingFull, NoiseIsTheSameInEachStart) {
  const std::vector<std::string> arguments = {"--phonemes", kPhonemes, "--device", "host"};
  const samples::Sound first = sound_of(arguments, true);
  EXPECT_EQ(sound_of(arguments, true).samples, first.samples);
  EXPECT_NE(sound_of(arguments).samples, first.samples);
}

TEST_F(SayingFull, TextHasSentencesWithPauses) {
  const test::ProcessResult r = run({"Hello, world. How are you?", "--device", "host", "--pause",
                                     "0.5", "--json", path("out.json"), "--plot", path("out.svg")});
  if (r.err.find("built without espeak-ng") != std::string::npos) GTEST_SKIP() << r.err;
  ASSERT_EQ(r.status, 0) << r.err;
  const Json json = Json::parse(test::read_file(path("out.json")));
  const Json& sentences = json["sentences"];
  ASSERT_EQ(sentences.size(), 2u);
  EXPECT_EQ(sentences[0]["phonemes"], kPhonemes);
  EXPECT_EQ(sentences[1]["phonemes"], "hˈaʊ ɑːɹ juː?");
  const double end = sentences[0]["end"], begin = sentences[1]["begin"];
  EXPECT_NEAR(begin - end, 0.5, 1e-3);
  const auto sound = samples::read_wav(path("out.wav"));
  EXPECT_EQ(json["samples"], sound->samples.size());
  const auto at = [&](double time) {
    return sound->samples.begin() + static_cast<std::ptrdiff_t>(time * sound->rate);
  };
  EXPECT_EQ(loudest({at(end + 0.01), at(begin - 0.01)}), 0.0F);
  EXPECT_NE(test::read_file(path("out.svg")).find(kPhonemes), std::string::npos);
}

TEST_F(SayingFull, EachDeviceSaysTheSame) {
  const samples::Sound host = sound_of({"--phonemes", kPhonemes, "--device", "host"});
  const test::ProcessResult devices =
      test::run_process({test::program("reprise"), "devices", "--json", path("devices.json")});
  ASSERT_EQ(devices.status, 0) << devices.err;
  size_t compared = 0;
  for (const Json& device : Json::parse(test::read_file(path("devices.json")))) {
    const std::string id = device["id"];
    if (!device["usable"] || !id.starts_with("vulkan")) continue;
    SCOPED_TRACE(id);
    expect_near(sound_of({"--phonemes", kPhonemes, "--device", id}).samples, host.samples);
    ++compared;
  }
  EXPECT_GT(compared, 0u);
}

constexpr const char* kOracle = R"(
import json, sys
import numpy as np
import onnxruntime
voice, phonemes = sys.argv[1:]
with open(voice + ".json", encoding="utf-8") as file:
    table = json.load(file)["phoneme_id_map"]
ids = table["^"] + table["_"]
for phoneme in phonemes:
    ids += table[phoneme] + table["_"]
ids += table["$"]
sound = onnxruntime.InferenceSession(voice).run(None, {
    "input": np.array([ids]),
    "input_lengths": np.array([len(ids)]),
    "scales": np.array([0, 1, 0], np.float32),
})[0]
print(*sound.ravel(), sep="\n")
)";

TEST_F(SayingFull, AgreesWithOnnxRuntime) {
  const fs::path python = test::source_dir() / ".cache/reference/bin/python";
  if (!fs::exists(python))
    GTEST_SKIP() << "onnxruntime is missing: tools/models reference installs it";
  const test::ProcessResult r =
      test::run_process({python, "-c", kOracle, path("voice.onnx"), kPhonemes});
  ASSERT_EQ(r.status, 0) << r.err;
  std::istringstream in(r.out);
  std::vector<float> expected;
  for (float value = 0; in >> value;) expected.push_back(value);
  expect_near(sound_of({"--phonemes", kPhonemes, "--device", "host"}).samples, expected);
}

}  // namespace
}  // namespace say
