// Real models, exported as users do, with the results of ONNX Runtime: an archive beside the
// repository (-DREPRISE_CORPUS).
#include <gtest/gtest.h>

#include <memory>

#include "tests/support/cases.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace reprise::test {
namespace {

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
    expect_clean(run_cases(folder_->path(), device, filter), least);
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
