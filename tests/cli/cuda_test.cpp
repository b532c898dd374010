// Compiling for CUDA as users meet it: no GPU is needed, NVRTC is.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "codegen/nvrtc/library.h"
#include "tests/cli/run_reprise.h"
#include "tests/support/onnx_writer.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

bool has_nvrtc() {
  const char* path = std::getenv("REPRISE_NVRTC");
  return nvrtc::Library::open(path ? path : "").ok();
}

class CudaTargets : public testing::Test {
 protected:
  void SetUp() override {
    OnnxWriter m;
    m.input("x", DType::F32, {"n", 64}).output("y", DType::F32, {"n", 64});
    m.initializer("w", float_tensor({64, 64}));
    m.node("MatMul", {"x", "w"}, {"p"}).node("Relu", {"p"}, {"y"});
    model_ = dir_ / "m.onnx";
    package_ = dir_ / "m.rpk";
    write_file(model_, m.bytes());
  }

  /// With a cache of its own.
  Json json_in_cache(std::vector<std::string> args) const {
    args.insert(args.begin(), program("reprise"));
    args.insert(args.end(), {"--json", "-"});
    const ProcessResult r = run_process(args, {"XDG_CACHE_HOME=" + (dir_ / "cache").string()});
    EXPECT_EQ(r.status, 0) << r.err;
    return Json::parse(r.out, nullptr, false);
  }

  TempDir dir_;
  std::string model_, package_;
};

TEST_F(CudaTargets, OnePackageForBoth) {
  if (!has_nvrtc()) GTEST_SKIP() << "NVRTC is missing: tools/nvrtc brings it";
  const std::vector<std::string> compile{
      "compile", model_, "-o", package_, "--targets", "vulkan-baseline,cuda:sm_80,cuda:sm_90"};
  const Json first = json_in_cache(compile);
  EXPECT_EQ(first["variants"],
            Json({"vulkan-baseline", "cuda-sm_90", "cuda-sm_80", "cuda-compute_80"}));
  EXPECT_EQ(first["cuda_images"], 3);
  EXPECT_EQ(first["cuda_images_cached"], 0);
  EXPECT_EQ(json_in_cache(compile)["cuda_images_cached"], 3);
  const ProcessResult host = reprise({"run", package_, "--device", "host"});
  EXPECT_EQ(host.status, 0) << host.err;

  const std::string dump = dir_ / "dump";
  const Json explained = json_of({"explain", package_, "--targets", "cuda:sm_80", "--dump", dump});
  EXPECT_EQ(explained["variant"], "cuda-sm_80");
  ASSERT_EQ(explained["kernels"].size(), 2u);  // of the cubins
  for (const Json& k : explained["kernels"]) {
    EXPECT_GT(k["registers"], 0);
    EXPECT_EQ(k["spill_bytes"], 0);
    EXPECT_TRUE(k.contains("shared_bytes") && k.contains("stack_bytes"));
  }
  EXPECT_EQ(explained["kernels"][0]["variant"], "cuda-sm_90");
  ASSERT_EQ(explained["groups"].size(), 1u);
  EXPECT_EQ(explained["groups"][0]["registers"], explained["kernels"][1]["registers"]);
  EXPECT_EQ(explained["groups"][0]["kernel"], "fused_matmul_relu");
  const fs::path folder = fs::path(dump) / "cuda-sm_80" / "fused_matmul_relu";
  EXPECT_NE(read_file(folder.string() + ".cu").find("__global__"), std::string::npos);
  EXPECT_EQ(read_file(folder.string() + ".cubin").substr(1, 3), "ELF");
  EXPECT_TRUE(fs::exists(fs::path(dump) / "cuda-compute_80" / "fused_matmul_relu.ptx"));
  const ProcessResult absent = reprise({"explain", package_, "--targets", "cuda:sm_75"});
  EXPECT_EQ(absent.status, 3);
  EXPECT_NE(absent.err.find("cuda-sm_90"), std::string::npos) << absent.err;
}

TEST_F(CudaTargets, ExplainCompilesForAllThatAreNamed) {
  if (!has_nvrtc()) GTEST_SKIP() << "NVRTC is missing: tools/nvrtc brings it";
  const Json json = json_in_cache(
      {"explain", model_, "--targets", "cuda:sm_80,cuda:sm_89,cuda:sm_90", "--dump", dir_ / "d"});
  EXPECT_EQ(json["variant"], "cuda-sm_90");
  ASSERT_EQ(json["kernels"].size(), 3u);
  EXPECT_EQ(json["kernels"][2]["variant"], "cuda-sm_80");
  EXPECT_TRUE(fs::exists(dir_.path() / "d" / "cuda-sm_89" / "fused_matmul_relu.cu"));
  EXPECT_TRUE(fs::exists(dir_.path() / "d" / "cuda-sm_90" / "fused_matmul_relu.ir"));
}

TEST_F(CudaTargets, WithoutNvrtcTheErrorSaysWhatToDo) {
  const ProcessResult r = reprise({"compile", model_, "-o", package_, "--targets",
                                   "vulkan,cuda:sm_90", "--nvrtc", "/nowhere/libnvrtc.so"});
  EXPECT_EQ(r.status, 3);
  for (const char* text : {"/nowhere/libnvrtc.so", "nvidia-cuda-nvrtc", "--targets vulkan"})
    EXPECT_NE(r.err.find(text), std::string::npos) << r.err;
  EXPECT_FALSE(fs::exists(package_));
  EXPECT_EQ(reprise({"compile", model_, "-o", package_, "--targets", "vulkan", "--nvrtc",
                     "/nowhere/libnvrtc.so"})
                .status,
            0);
}

TEST_F(CudaTargets, FormsOfTargets) {
  for (const char* target : {"cuda", "cuda:90", "sm_90", "cuda:sm_90a"}) {
    const ProcessResult r = reprise({"compile", model_, "-o", package_, "--targets", target});
    EXPECT_EQ(r.status, 2) << target;
    EXPECT_NE(r.err.find("cuda:sm_80"), std::string::npos) << r.err;
  }
}

}  // namespace
}  // namespace reprise::test
