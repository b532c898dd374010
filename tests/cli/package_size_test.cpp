// What a compiled model takes on disk.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/run_reprise.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

/// The bound of every package: little more than the model's weights.
uint64_t bound(const fs::path& model) {
  return fs::file_size(model) * 115 / 100 + 3'000'000;
}

class PackageSize : public testing::TestWithParam<const char*> {};

TEST_P(PackageSize, IsLittleMoreThanTheWeights) {
  const fs::path model = models_dir() / GetParam() / "model.onnx";
  if (!fs::exists(model)) GTEST_SKIP() << "no model " << GetParam();
  const TempDir folder;
  const fs::path package = folder / "model.rpk";
  const auto r = reprise({"compile", model.string(), "-o", package.string()});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_LT(fs::file_size(package), bound(model));
}

// One with many kernels, one whose weights take a BatchNormalization.
INSTANTIATE_TEST_SUITE_P(Models, PackageSize, testing::Values("ppocr_cls", "ppocr_det"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace reprise::test
