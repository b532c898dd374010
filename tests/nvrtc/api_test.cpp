// The C interface's targets.
#include "capi/handles/handles.h"
#include "reprise/compiler.h"
#include "tests/nvrtc/support.h"
#include "tests/support/onnx_writer.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

TEST(TargetsApi, TextsReachTheCompiler) {
  const TempDir dir;
  const std::string path = dir / "m.onnx";
  OnnxWriter m;
  m.input("x", DType::F32, {2, 64}).output("y", DType::F32, {2, 64}).node("Relu", {"x"}, {"y"});
  write_file(path, m.bytes());
  const std::string nvrtc = nvrtc_path(), cache = dir / "cache";
  const char* targets[] = {"cuda:sm_80", "vulkan-baseline"};
  reprise_compile_options options = REPRISE_COMPILE_OPTIONS_INIT;
  options.targets = targets;
  options.target_count = 2;
  options.nvrtc = "/nowhere/libnvrtc.so";
  options.cuda_cache_dir = cache.c_str();
  reprise_package* package = nullptr;
  EXPECT_EQ(reprise_compile_file(path.c_str(), &options, &package, nullptr), REPRISE_UNSUPPORTED);
  targets[0] = "cuda:x";
  EXPECT_EQ(reprise_compile_file(path.c_str(), &options, &package, nullptr), REPRISE_USAGE);
  REPRISE_NEEDS_NVRTC();
  targets[0] = "cuda:sm_80";
  options.nvrtc = nvrtc.c_str();
  ASSERT_EQ(reprise_compile_file(path.c_str(), &options, &package, nullptr), REPRISE_OK);
  const auto held = *capi::find_handle(package);
  const auto& variants = held->package->variants;
  ASSERT_EQ(variants.size(), 3u);
  EXPECT_EQ(variants[0].name, "vulkan-baseline");
  EXPECT_EQ(variants[1].name, "cuda-sm_80");
  EXPECT_TRUE(std::filesystem::exists(cache));
  reprise_package_free(package);
}

}  // namespace
}  // namespace reprise::test
