// What commands write, and what they must not replace: files appear completely or not at all.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "apps/common/files.h"
#include "apps/common/waiting.h"
#include "tests/cli/run_reprise.h"
#include "tests/support/onnx_writer.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

class Outputs : public testing::Test {
 protected:
  void SetUp() override {
    OnnxWriter m;
    m.input("x", DType::F32, {"n", 8}).output("y", DType::F32, {"n", 8}).node("Abs", {"x"}, {"y"});
    bytes_ = m.bytes();
    write_file(model_, bytes_);
  }

  void expect_refused(const std::vector<std::string>& arguments, const std::string& why) const {
    const ProcessResult r = reprise(arguments);
    EXPECT_EQ(r.status, 2) << r.err;
    EXPECT_NE(r.err.find(why), std::string::npos) << r.err;
    EXPECT_EQ(read_file(model_), bytes_);
  }
  /// Runs a line of a shell in the folder. "$R" is the command line.
  ProcessResult shell(const std::string& line) const {
    return run_process({"/bin/sh", "-c", "cd '" + dir_.path().string() + "' && " + line},
                       {"R=" + program("reprise").string()});
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(dir_.path()))
      names.push_back(fs::relative(entry.path(), dir_.path()).string());
    std::sort(names.begin(), names.end());
    return names;
  }

  TempDir dir_;
  std::string model_ = dir_ / "m.onnx", bytes_;
};

TEST_F(Outputs, APackageReplacesNoModel) {
  fs::create_symlink("m.onnx", dir_ / "link.rpk");
  fs::create_hard_link(model_, dir_ / "hard.rpk");
  write_file(dir_ / "m.onnx.data", "weights");
  for (const std::string& output :
       {model_, (dir_ / "link.rpk").string(), (dir_ / "hard.rpk").string(),
        (dir_ / "../").string() + dir_.path().filename().string() + "/m.onnx"})
    expect_refused({"compile", model_, "-o", output}, "the model itself");
  expect_refused({"compile", model_, "-o", dir_ / "m.onnx.data"}, "is no package");
  EXPECT_EQ(read_file(dir_ / "m.onnx.data"), "weights");
}

TEST_F(Outputs, APackageReplacesAPackageOrAnEmptyFile) {
  const std::string output = dir_ / "m.rpk";
  write_file(output, "");
  EXPECT_EQ(reprise({"compile", model_, "-o", output}).status, 0);
  EXPECT_EQ(reprise({"compile", model_, "-o", output}).status, 0);
  EXPECT_EQ(files(), (std::vector<std::string>{"m.onnx", "m.rpk"}));
}

TEST_F(Outputs, ResultsReplaceNoModel) {
  expect_refused({"run", model_, "--device", "host", "--json", model_}, "is a model");
  write_file(dir_ / "model.onnx", bytes_);
  expect_refused({"bisect", dir_ / "model.onnx", "-o", dir_.path()}, "would replace");
  EXPECT_EQ(read_file(dir_ / "model.onnx"), bytes_);
}

TEST_F(Outputs, ADashIsNoFile) {
  for (const std::string command :
       {"compile m.onnx -o -", "run m.onnx --device host --output-dir -", "bisect m.onnx -o -",
        "explain m.onnx --dump -"}) {
    const ProcessResult r = shell("$R " + command);
    EXPECT_EQ(r.status, 2) << command;
    EXPECT_NE(r.err.find("does not go to standard output"), std::string::npos) << r.err;
  }
  EXPECT_EQ(shell("$R compile m.onnx -o ./-").status, 0);
  EXPECT_EQ(files(), (std::vector<std::string>{"-", "m.onnx"}));
}

/// The limit of file sizes stands for a full disk.
TEST_F(Outputs, AFullDiskLeavesTheOldFile) {
  fs::create_directory(dir_ / "out");
  write_file(dir_ / "out/0.npy", "old");
  const ProcessResult r =
      shell("ulimit -f 1 && $R run m.onnx --device host --shape x=1000x8 --output-dir out");
  EXPECT_EQ(r.status, 4) << r.err;
  EXPECT_NE(r.err.find("cannot write 'out/0.npy': File too large"), std::string::npos) << r.err;
  const ProcessResult json =
      shell("ulimit -f 1 && $R explain m.onnx --dump out --json out/explained");
  EXPECT_EQ(json.status, 4) << json.err;
  EXPECT_EQ(read_file(dir_ / "out/0.npy"), "old");
  for (const std::string& name : files()) {
    EXPECT_EQ(name.find(".tmp"), std::string::npos) << name;
    EXPECT_NE(name, "out/explained");
  }
}

TEST_F(Outputs, RelativeFoldersOfTheUserAreIgnored) {
  for (const std::string variables :
       {"HOME=here XDG_CACHE_HOME=", "HOME= XDG_CACHE_HOME=here/cache", "HOME=. XDG_CACHE_HOME=."})
    EXPECT_EQ(shell(variables + " $R run m.onnx --device vulkan").status, 0);
  for (const std::string& name : files())
    EXPECT_EQ(name.find("reprise"), std::string::npos) << name;
}

TEST_F(Outputs, ShapesHaveALimit) {
  for (const std::string shape :
       {"x=4000000000x4", "x=2147483648x8", "x=99999999999999999999999x8"}) {
    expect_refused({"run", model_, "--device", "host", "--shape", shape},
                   "a dim has at most 2147483647");
  }
}

TEST(WaitingNote, IsWrittenOnlyWhenItTakesLong) {
  testing::internal::CaptureStderr();
  { const app::Waiting waiting("what ends soon"); }
  {
    const app::Waiting waiting("a slow driver");
    std::this_thread::sleep_for(std::chrono::milliseconds(3300));
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "note: this takes longer than 3 s: waiting for a slow driver\n");
}

}  // namespace
}  // namespace reprise::test
