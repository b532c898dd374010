// reprise-vad as users run it: it finds speech, and its state stays on the device.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <sstream>

#include "apps/samples/wav.h"
#include "apps/vad/detector.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/vad/voice.h"

namespace vad {
namespace {

namespace fs = std::filesystem;
namespace test = reprise::test;
using reprise::Result;
using samples::read_wav;
using samples::Sound;

/// The file of tools/models.
fs::path fetched() {
  return test::source_dir() / ".cache/vad/vad.onnx";
}

std::vector<float> numbers(const std::string& text) {
  std::istringstream in(text);
  std::vector<float> out;
  for (float value = 0; in >> value;) out.push_back(value);
  return out;
}

class Program : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!fs::exists(fetched())) return;
    folder_ = std::make_unique<test::TempDir>();
    const test::ProcessResult r = test::run_process(
        {test::program("reprise"), "compile", fetched(), "-o", *folder_ / "vad.rpk", "--state",
         "state=stateN", "--shape", "input=1x576", "--shape", "state=2x1x128"});
    ASSERT_EQ(r.status, 0) << r.err;
    const std::vector<float> sound = voice(16000, 4, {{0.8, 1.8}, {2.5, 3.4}});
    test::write_file(*folder_ / "voice.wav", wav(sound, 16000, 1, 1, 16));
  }
  static void TearDownTestSuite() { folder_.reset(); }

  void SetUp() override {
    if (!folder_) GTEST_SKIP() << "Silero's model is missing: tools/models vad fetches it";
  }

  static std::string path(const std::string& name) { return *folder_ / name; }

  static test::ProcessResult run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {test::program("reprise-vad"), "--package", path("vad.rpk")});
    return test::run_process(arguments);
  }

  /// The probabilities that the program finds on a device.
  static std::vector<float> probabilities(const std::string& device) {
    const test::ProcessResult r = run(
        {path("voice.wav"), "--device", device, "--probabilities", path("p.txt"), "--validation"});
    EXPECT_EQ(r.status, 0) << r.err;
    return numbers(test::read_file(path("p.txt")));
  }

  static std::unique_ptr<test::TempDir> folder_;
};
std::unique_ptr<test::TempDir> Program::folder_;

void expect_near(const std::vector<float>& found, const std::vector<float>& expected, float error) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], error) << i;
}

TEST_F(Program, FindsWhereSomeoneSpeaks) {
  const test::ProcessResult r =
      run({path("voice.wav"), "--plot", path("plot.svg"), "--device", "host"});
  ASSERT_EQ(r.status, 0) << r.err;
  const std::vector<float> times = numbers(r.out);
  expect_near(times, {0.8F, 1.8F, 2.5F, 3.4F}, 0.15F);
  const std::string svg = test::read_file(path("plot.svg"));
  size_t shaded = 0;
  for (size_t at = 0; (at = svg.find("class=\"speech\"", at)) != std::string::npos; ++at) ++shaded;
  EXPECT_EQ(shaded, 2u);
}

TEST_F(Program, StateStaysOnTheDeviceUntilItIsReset) {
  auto package = reprise::Package::open(path("vad.rpk"));
  ASSERT_TRUE(package) << package.error().message;
  const auto device = reprise::Device::open("host");
  auto detector = Detector::create(*package, *device);
  ASSERT_TRUE(detector) << detector.error().message;
  const Result<Sound> sound = read_wav(path("voice.wav"));
  const auto window = std::span<const float>(sound->samples).subspan(16000, kWindow);
  std::vector<float> first, second;
  for (int i = 0; i < 5; ++i) first.push_back(*detector->next(window));
  EXPECT_NE(first[4], first[0]) << "it remembers earlier windows";
  EXPECT_NE(*detector->next(window), first[0]);
  ASSERT_EQ(detector->reset().status, REPRISE_OK);
  for (int i = 0; i < 5; ++i) second.push_back(*detector->next(window));
  EXPECT_EQ(second, first);
}

TEST_F(Program, SaysWhatIsWrong) {
  EXPECT_EQ(run({path("none.wav")}).status, 4);
  EXPECT_EQ(run({path("vad.rpk")}).status, 3) << "no WAV file";
  EXPECT_EQ(run({path("voice.wav"), "--threshold", "2"}).status, 2);
  // Without a state, the model would begin anew in each window.
  const test::ProcessResult compiled = test::run_process(
      {test::program("reprise"), "compile", fetched(), "-o", path("stateless.rpk")});
  ASSERT_EQ(compiled.status, 0) << compiled.err;
  const test::ProcessResult r =
      test::run_process({test::program("reprise-vad"), path("voice.wav"), "--package",
                         path("stateless.rpk"), "--device", "host"});
  EXPECT_EQ(r.status, 3);
  EXPECT_NE(r.err.find("--state state=stateN"), std::string::npos) << r.err;
}

TEST_F(Program, FullAgreesOnAllDevices) {
  const std::vector<float> host = probabilities("host");
  EXPECT_EQ(host.size(), 125u);
  EXPECT_GT(*std::max_element(host.begin(), host.end()), 0.9F);
  reprise_device_info infos[16];
  for (reprise_device_info& info : infos) info = REPRISE_DEVICE_INFO_INIT;
  size_t count = 0;
  ASSERT_EQ(reprise_list_devices(infos, 16, &count, nullptr), REPRISE_OK);
  size_t compared = 0;
  for (size_t i = 0; i < std::min<size_t>(count, 16); ++i) {
    const std::string id = infos[i].id;
    if (!infos[i].usable || id.rfind("vulkan", 0) != 0) continue;
    SCOPED_TRACE(id);
    expect_near(probabilities(id), host, 1e-4F);
    ++compared;
  }
  EXPECT_GT(compared, 0u);
}

TEST_F(Program, FullReadsOtherRates) {
  const std::vector<float> sound = voice(44100, 4, {{0.8, 1.8}, {2.5, 3.4}});
  test::write_file(path("cd.wav"), wav(sound, 44100, 2, 1, 24));
  const test::ProcessResult r = run({path("cd.wav"), "--device", "host"});
  ASSERT_EQ(r.status, 0) << r.err;
  expect_near(numbers(r.out), {0.8F, 1.8F, 2.5F, 3.4F}, 0.15F);
}

constexpr const char* kOracle = R"(
import sys, wave
import numpy as np
import onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
with wave.open(sys.argv[2]) as file:
    sound = np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 32768
sound = np.pad(sound, (64, -len(sound) % 512))
state = np.zeros((2, 1, 128), np.float32)
for begin in range(0, len(sound) - 64, 512):
    window = sound[None, begin : begin + 576]
    p, state = session.run(None, {"input": window, "state": state, "sr": np.array(16000)})
    print(p[0, 0])
)";

TEST_F(Program, FullAgreesWithOnnxRuntime) {
  const fs::path python = test::source_dir() / ".cache/reference/bin/python";
  if (!fs::exists(python))
    GTEST_SKIP() << "onnxruntime is missing: tools/models reference installs it";
  const test::ProcessResult r =
      test::run_process({python, "-c", kOracle, fetched(), path("voice.wav")});
  ASSERT_EQ(r.status, 0) << r.err;
  expect_near(probabilities("auto"), numbers(r.out), 1e-4F);
}

}  // namespace
}  // namespace vad
