// Real models, exported as users do, with the results of ONNX Runtime: an archive beside the
// repository (-DREPRISE_CORPUS).
#include <gtest/gtest.h>

#include <memory>

#include "tests/support/cases.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace reprise::test {
namespace {

/// One model chooses the best scores with TopK; some of these differ by a unit in the last place.
constexpr int64_t kUndecided = 1;

class Corpus : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!std::filesystem::exists(corpus_file())) return;
    folder_ = std::make_unique<TempDir>();
    const ProcessResult r =
        run_process({"/usr/bin/env", "tar", "--zstd", "-xf", corpus_file(), "-C", folder_->path()});
    if (r.status != 0) folder_.reset();
  }
  static void TearDownTestSuite() { folder_.reset(); }
  void SetUp() override {
    if (!folder_) GTEST_SKIP() << "no corpus in " << corpus_file();
  }
  static void expect_all(const std::string& device, const std::string& filter, int64_t least) {
    SCOPED_TRACE(device);
    Json json = run_cases(folder_->path(), device, filter);
    if (!json.is_object()) return;
    int64_t undecided = 0;
    for (Json& c : json["cases"]) {
      if (c["status"] != "fail" || !is_rounding(c["name"], device)) continue;
      c["status"] = "undecided";
      ++undecided;
    }
    EXPECT_LE(undecided, kUndecided);
    expect_clean(json, least - undecided);
  }
  /// Whether `bisect` finds that every kernel is right and rounding decides what the results are.
  static bool is_rounding(const std::string& name, const std::string& device) {
    const std::filesystem::path folder = std::filesystem::path(folder_->path()) / name;
    const TempDir reduced;
    bool all = true;
    for (int set = 0; all; ++set) {
      const auto data = folder / ("test_data_set_" + std::to_string(set));
      if (!std::filesystem::exists(data)) return set > 0;
      const size_t slash = device.find('/');
      std::vector<std::string> command{program("reprise"),
                                       "bisect",
                                       folder / "model.onnx",
                                       "--data",
                                       data,
                                       "--device",
                                       device.substr(0, slash),
                                       "-o",
                                       reduced.path(),
                                       "--reduce-seconds",
                                       "1",
                                       "--json",
                                       "-"};
      if (slash != std::string::npos)
        command.insert(command.end(), {"--without", device.substr(slash + 1)});
      const Json report = Json::parse(run_process(command).out, nullptr, false);
      all = report.is_object() && (report["cause"] == "rounding" || report["differs"] == false);
    }
    return false;
  }
  static std::unique_ptr<TempDir> folder_;
};
std::unique_ptr<TempDir> Corpus::folder_;

constexpr int64_t kCases = 75;

TEST_F(Corpus, SmallModels) {
  std::vector<std::string> devices = case_devices();
  for (const std::string& device : descriptor_devices()) devices.push_back(device);
  for (const std::string& device : devices) expect_all(device, "flow_*", 2);
}

TEST_F(Corpus, FullOnEveryDevice) {
  for (const std::string& device : case_devices()) expect_all(device, "*", kCases);
}

TEST_F(Corpus, FullWithoutBufferAddresses) {
  for (const std::string& device : descriptor_devices()) expect_all(device, "*", kCases);
}

}  // namespace
}  // namespace reprise::test
