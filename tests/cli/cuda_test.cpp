// Compiling for CUDA as users meet it: no GPU is needed, NVRTC is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "apps/reprise/machine_code.h"
#include "codegen/nvrtc/library.h"
#include "tests/cli/run_reprise.h"
#include "tests/support/onnx_writer.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSass = R"(
        Function : k
    .headerflags @"EF_CUDA_TEXMODE_UNIFIED"
        /*0000*/                   MOV R1, c[0x0][0x28] ;         /* 0x00000a0000017a02 */
        /*0010*/                   LDGSTS.E.BYPASS.128 [R2], [R4.64] ; /* 0x00 */
        /*0020*/                   HMMA.16816.F32 R4, R8, R12, R4 ;
        /*0030*/                   HMMA.16816.F32 R4, R8, R14, R4 ;
        /*0040*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0050*/               @P0 BRA 0x10 ;
        /*0060*/                   STL [R1], R4 ;
        /*0070*/                   EXIT ;
)";

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

  /// On the stand-in driver.
  ProcessResult on_standin(std::vector<std::string> args, const std::string& fault = "",
                           const std::string& fail = "") const {
    args.insert(args.begin(), program("reprise"));
    return run_process(args,
                       {"LD_LIBRARY_PATH=" + (binary_dir() / "lib" / "cuda-standin").string(),
                        "XDG_CACHE_HOME=" + (dir_ / "cache").string(), "REPRISE_KEEP_SOURCE=1",
                        "REPRISE_STANDIN_FAULT=" + fault, "REPRISE_STANDIN_FAIL=" + fail});
  }

  /// On one of this version, where the linker finds NVRTC 12.7 and 13.7, which compile nothing.
  ProcessResult on_driver(int version, std::vector<std::string> args,
                          std::vector<std::string> environment = {}) const {
    args.insert(args.begin(), program("reprise"));
    const fs::path lib = binary_dir() / "lib";
    environment.push_back("LD_LIBRARY_PATH=" + (lib / "cuda-standin").string() + ":" +
                          (lib / "fake-nvrtc").string());
    environment.push_back("REPRISE_STANDIN_DRIVER=" + std::to_string(version));
    environment.push_back("XDG_CACHE_HOME=" + (dir_ / "cache").string());
    environment.emplace_back("REPRISE_NVRTC=");
    environment.emplace_back("REPRISE_KEEP_SOURCE=1");
    return run_process(args, environment);
  }

  TempDir dir_;
  std::string model_, package_;
};

void expect_said(const ProcessResult& r, const std::vector<std::string>& texts) {
  for (const std::string& text : texts)
    EXPECT_NE(r.err.find(text), std::string::npos) << "'" << text << "' in: " << r.err;
}

TEST_F(CudaTargets, NvrtcIsNoNewerThanTheDriver) {
  const std::vector<std::string> run{"run", model_, "--device", "cuda"};
  const std::string refuses = "FAKE_NVRTC_REFUSES=1";
  expect_said(on_driver(12040, run, {refuses}), {"NVRTC 12.7 rejects the text"});
  expect_said(on_driver(13000, run, {refuses}), {"NVRTC 13.7 rejects the text"});
  // The older one does not know the architecture.
  const ProcessResult newest = on_driver(12080, run, {refuses, "REPRISE_STANDIN_ARCH=110"});
  expect_said(newest, {"NVRTC 13.7 rejects the text", "NVRTC 13.7 is newer than the driver"});
  // One that is named is taken, and said to be newer.
  std::vector<std::string> named = run;
  const std::string path = binary_dir() / "lib" / "fake-nvrtc" / "libnvrtc.so.13";
  named.insert(named.end(), {"--nvrtc", path});
  expect_said(
      on_driver(12040, named),
      {"note: NVRTC 13.7 is newer than the driver, which is of CUDA 12.4", "update the driver"});
  EXPECT_EQ(on_driver(13000, named).err.find("newer"), std::string::npos);
}

// NVRTC 12.7 does not compile for sm_110, nor 13.7 for sm_101.
TEST_F(CudaTargets, NvrtcIsOneThatCompilesForAllTargets) {
  const auto compiled = [&](const std::string& targets) {
    return on_driver(12080, {"compile", model_, "-o", package_, "--targets", targets});
  };
  for (const char* targets :
       {"cuda:compute_110", "cuda:compute_101", "cuda:compute_90,cuda:compute_101"}) {
    const ProcessResult r = compiled(targets);
    EXPECT_EQ(r.status, 0) << targets << ": " << r.err;
  }
  const ProcessResult both = compiled("cuda:sm_101,cuda:sm_110,cuda:sm_90");
  EXPECT_EQ(both.status, 3);
  expect_said(both, {"NVRTC 13.7 does not compile for sm_101; it knows sm_75, sm_80, sm_90, sm_110",
                     "NVRTC 12.7 does not compile for sm_110; it knows sm_75, sm_80, sm_90, sm_101",
                     "--nvrtc PATH"});
  const ProcessResult none = compiled("cuda:sm_199");
  EXPECT_EQ(none.status, 3);
  expect_said(none, {"NVRTC 13.7 does not compile for sm_199", "NVRTC 12.7 does not"});
}

// Where the driver is known, but the device is not asked for its facts.
TEST_F(CudaTargets, NvrtcForADeviceKnowsItsArchitecture) {
  const std::vector<std::string> thor{"REPRISE_STANDIN_ARCH=110"};
  const ProcessResult tuned =
      on_driver(12080,
                {"compile", model_, "-o", package_, "--targets", "cuda:compute_110", "--device",
                 "cuda", "--mode", "max-autotune", "--tune-seconds", "0", "--shape", "x=4x64"},
                thor);
  EXPECT_EQ(tuned.status, 0) << tuned.err;
  expect_said(tuned, {"NVRTC 13.7 is newer than the driver"});
  const ProcessResult compared =
      on_driver(12080, {"compare", model_, "--devices", "host,cuda", "--runs", "1"}, thor);
  EXPECT_EQ(compared.status, 0) << compared.err;
  expect_said(compared, {"NVRTC 13.7 is newer than the driver"});
}

TEST_F(CudaTargets, WithoutNvrtcADeviceSaysWhatRuns) {
  const ProcessResult r =
      on_driver(13000, {"run", model_, "--device", "cuda", "--nvrtc", "/nowhere/libnvrtc.so"});
  EXPECT_EQ(r.status, 3);
  expect_said(r, {"/nowhere/libnvrtc.so", "nvidia-cuda-nvrtc", "--device vulkan",
                  "reprise compile MODEL.onnx -o MODEL.rpk --targets cuda:sm_90"});
  EXPECT_EQ(r.err.find("--targets vulkan"), std::string::npos) << r.err;
}

TEST_F(CudaTargets, OnePackageForBoth) {
  if (!has_nvrtc()) GTEST_SKIP() << "NVRTC is missing: tools/nvrtc brings it";
  std::vector<std::string> compile{
      "compile",      model_, "-o", package_, "--targets", "vulkan-baseline,cuda:sm_80,cuda:sm_90",
      "--keep-source"};
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
  EXPECT_EQ(explained["barriers"], 0);
  EXPECT_EQ(explained["variant"], "cuda-sm_80");
  ASSERT_EQ(explained["kernels"].size(), 3u);
  for (const Json& k : explained["kernels"]) {
    if (k["variant"] == "cuda-compute_80") {
      EXPECT_EQ(k["machine_code"]["source"], "ptx");
      EXPECT_GT(k["machine_code"]["instructions"], 20);
      continue;
    }
    EXPECT_GT(k["registers"], 0);
    EXPECT_EQ(k["spill_bytes"], 0);
    EXPECT_TRUE(k.contains("shared_bytes") && k.contains("stack_bytes"));
    EXPECT_GT(k["resident_workgroups"], 0);
    EXPECT_LE(k["occupancy"], 1.0);
  }
  EXPECT_EQ(explained["kernels"][0]["variant"], "cuda-sm_90");
  ASSERT_EQ(explained["groups"].size(), 1u);
  EXPECT_EQ(explained["groups"][0]["registers"], explained["kernels"][1]["registers"]);
  EXPECT_EQ(explained["groups"][0]["kernel"], "fused_matmul_relu");
  const fs::path folder = fs::path(dump) / "cuda-sm_80" / "fused_matmul_relu";
  EXPECT_NE(read_file(folder.string() + ".cu").find("__global__"), std::string::npos);
  EXPECT_EQ(read_file(folder.string() + ".cubin").substr(1, 3), "ELF");
  EXPECT_TRUE(fs::exists(fs::path(dump) / "cuda-compute_80" / "fused_matmul_relu.ptx"));
  compile.pop_back();
  const auto with_source = fs::file_size(package_);
  json_in_cache(compile);
  EXPECT_LE(fs::file_size(package_), with_source);  // files consist of pages
  const std::string bare = dir_ / "bare";
  json_of({"explain", package_, "--targets", "cuda:sm_80", "--dump", bare});
  EXPECT_FALSE(fs::exists(fs::path(bare) / "cuda-sm_80" / "fused_matmul_relu.cu"));
  EXPECT_TRUE(fs::exists(fs::path(bare) / "cuda-sm_80" / "fused_matmul_relu.cubin"));
  const ProcessResult absent = reprise({"explain", package_, "--targets", "cuda:sm_75"});
  EXPECT_EQ(absent.status, 3);
  EXPECT_NE(absent.err.find("cuda-sm_90"), std::string::npos) << absent.err;
}

TEST_F(CudaTargets, ExplainCompilesForAllThatAreNamed) {
  if (!has_nvrtc()) GTEST_SKIP() << "NVRTC is missing: tools/nvrtc brings it";
  const Json json = json_in_cache(
      {"explain", model_, "--targets", "cuda:sm_80,cuda:sm_89,cuda:sm_90", "--dump", dir_ / "d"});
  EXPECT_EQ(json["variant"], "cuda-sm_90");
  ASSERT_EQ(json["kernels"].size(), 4u);
  EXPECT_EQ(json["kernels"][2]["variant"], "cuda-sm_80");
  EXPECT_TRUE(fs::exists(dir_.path() / "d" / "cuda-sm_89" / "fused_matmul_relu.cu"));
  EXPECT_TRUE(fs::exists(dir_.path() / "d" / "cuda-sm_90" / "fused_matmul_relu.ir"));
}

/// A disassembler that knows one listing stands for NVIDIA's.
TEST_F(CudaTargets, ExplainCountsInstructionsWithADisassembler) {
  if (!has_nvrtc()) GTEST_SKIP() << "NVRTC is missing: tools/nvrtc brings it";
  const fs::path bin = dir_.path() / "bin";
  fs::create_directory(bin);
  write_file(bin / "cuobjdump", "#!/bin/sh\ncat <<'END'\n" + std::string(kSass) + "END\n");
  fs::permissions(bin / "cuobjdump", fs::perms::owner_all);
  const auto explain = [&](const std::string& path) {
    const ProcessResult r = run_process(
        {program("reprise"), "explain", model_, "--targets", "cuda:sm_80", "--json", "-"},
        {"XDG_CACHE_HOME=" + (dir_ / "cache").string(), "PATH=" + path});
    EXPECT_EQ(r.status, 0) << r.err;
    return Json::parse(r.out, nullptr, false)["kernels"][0];
  };
  const Json code = explain(bin.string() + ":/usr/bin:/bin")["machine_code"];
  EXPECT_EQ(code["source"], "sass");
  EXPECT_EQ(code["instructions"], 8);
  EXPECT_EQ(code["main_loop"]["instructions_per_matrix_instruction"], 2.5);
  EXPECT_FALSE(explain(dir_ / "none").contains("machine_code"));
}

TEST(MachineCode, CountsSass) {
  const auto code = app::read_sass(kSass);
  ASSERT_TRUE(code.has_value());
  EXPECT_EQ(code->matrix, 2u);
  EXPECT_EQ(code->async_copies, 1u);
  EXPECT_EQ(code->local, 1u);
  EXPECT_EQ(code->barriers, 1u);
  EXPECT_EQ(code->loop_instructions, 5u);
  EXPECT_FALSE(app::read_sass("no listing").has_value());
}

TEST(MachineCode, CountsPtx) {
  const auto code = app::read_ptx(R"(.visible .entry k(.param .align 8 .b8 p[8])
{
  .reg .pred %p<2>;
  mov.u32 %r1, 0;
$L1:
  cp.async.cg.shared.global [%r2], [%rd1], 16;
  cp.async.commit_group;
  { mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1}; }
  setp.lt.u32 %p1, %r1, 4;
  @%p1 bra $L1;
  st.local.u32 [%rd2], %r1;
  bar.sync 0;
  ret;
}
)");
  ASSERT_TRUE(code.has_value());
  EXPECT_EQ(code->instructions, 9u);
  EXPECT_EQ(code->matrix, 1u);
  EXPECT_EQ(code->async_copies, 1u);
  EXPECT_EQ(code->local, 1u);
  EXPECT_EQ(code->barriers, 1u);
  EXPECT_EQ(code->loop_instructions, 5u);
  EXPECT_EQ(code->loop_matrix, 1u);
}

TEST(MachineCode, OccupancyIsThatOfTheScarcestResource) {
  plan::KernelCode k;
  k.workgroup = {256, 1, 1};
  k.usage = {128, 0, 0, 0};
  EXPECT_EQ(app::occupancy_of(k, 80)->workgroups, 2u);  // registers
  k.usage = {32, 0, 49152, 0};
  EXPECT_EQ(app::occupancy_of(k, 80)->workgroups, 3u);  // shared memory
  EXPECT_EQ(app::occupancy_of(k, 89)->workgroups, 2u);
  k.usage = {32, 0, 0, 0};
  EXPECT_EQ(app::occupancy_of(k, 90)->warps, 1.0);  // warps
  EXPECT_FALSE(app::occupancy_of(k, 61).has_value());
}

TEST_F(CudaTargets, TuningNeedsATargetForTheDevice) {
  const std::vector<std::string> compile{"compile",      model_,           "-o", package_, "--mode",
                                         "max-autotune", "--tune-seconds", "0"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), compile.begin(), compile.end());
    return on_standin(more);
  };
  const ProcessResult none = with({"--device", "cuda"});
  EXPECT_EQ(none.status, 2);
  expect_said(none, {"max-autotune", "no target is for cuda:0", "add cuda:sm_90 to --targets"});
  const ProcessResult other = with({"--targets", "cuda:sm_100", "--device", "cuda:0"});
  EXPECT_EQ(other.status, 2) << other.err;
  const ProcessResult automatic = with({});
  EXPECT_EQ(automatic.status, 0) << automatic.err;
  EXPECT_EQ(automatic.err.find("cuda:0, "), std::string::npos) << automatic.err;
  if (!has_nvrtc()) GTEST_SKIP() << "NVRTC is missing: tools/nvrtc brings it";
  const ProcessResult tuned = with({"--targets", "cuda:sm_90"});
  EXPECT_EQ(tuned.status, 0) << tuned.err;
  expect_said(tuned, {"auto: cuda:0", "note: tuned: "});
}

TEST_F(CudaTargets, AFaultOfOneModelIsNotTheNextOnes) {
  if (!has_nvrtc()) GTEST_SKIP() << "NVRTC is missing: tools/nvrtc brings it";
  OnnxWriter m;
  m.input("x", DType::F32, {8}).output("y", DType::F32, {8}).node("Sigmoid", {"x"}, {"y"});
  const std::string sound = dir_ / "sound.onnx";
  write_file(sound, m.bytes());
  const ProcessResult r =
      on_standin({"bench", model_, sound, "--device", "cuda:0", "--runs", "1", "--json", "-"},
                 "fused_matmul_relu");
  EXPECT_EQ(r.status, 4) << r.err;
  expect_said(r, {"CUDA_ERROR_ILLEGAL_ADDRESS"});
  const Json measured = Json::parse(r.out, nullptr, false);
  ASSERT_EQ(measured.size(), 1U) << r.out << r.err;
  EXPECT_EQ(measured[0]["model"], sound);
}

TEST_F(CudaTargets, WhatWasMeasuredOutlivesTheDevice) {
  if (!has_nvrtc()) GTEST_SKIP() << "NVRTC is missing: tools/nvrtc brings it";
  OnnxWriter m;
  m.input("x", DType::F32, {8}).output("y", DType::F32, {8}).node("Sigmoid", {"x"}, {"y"});
  const std::string sound = dir_ / "sound.onnx", json = dir_ / "bench.json";
  write_file(sound, m.bytes());
  const ProcessResult r = on_standin(
      {"bench", sound, model_, sound, sound, "--device", "cuda:0", "--runs", "1", "--json", json},
      "fused_matmul_relu", "cuDevicePrimaryCtxRetain:2:2");
  EXPECT_EQ(r.status, 4) << r.err;
  expect_said(r, {"CUDA_ERROR_ILLEGAL_ADDRESS", "cannot be opened again",
                  "CUDA_ERROR_OUT_OF_MEMORY", "models not measured: 2"});
  EXPECT_NE(r.out.find("sound"), std::string::npos) << r.out;
  const Json measured = Json::parse(read_file(json), nullptr, false);
  ASSERT_EQ(measured.size(), 1U) << r.err;
  EXPECT_EQ(measured[0]["model"], sound);
}

TEST_F(CudaTargets, ComparingCompilesForTheDevicesThereAre) {
  if (!has_nvrtc()) GTEST_SKIP() << "NVRTC is missing: tools/nvrtc brings it";
  const ProcessResult r = on_standin({"compare", model_, "--devices", "cuda:0", "--runs", "1"});
  EXPECT_EQ(r.status, 0) << r.err;
  const fs::path images = dir_.path() / "cache" / "reprise" / "cuda";
  EXPECT_EQ(std::count_if(fs::directory_iterator(images), fs::directory_iterator(),
                          [](const auto& f) { return f.path().extension() == ".cudaimage"; }),
            1);
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
  for (const char* target : {"cuda", "cuda:90", "sm_90", "cuda:sm_90b"}) {
    const ProcessResult r = reprise({"compile", model_, "-o", package_, "--targets", target});
    EXPECT_EQ(r.status, 2) << target;
    EXPECT_NE(r.err.find("cuda:sm_80"), std::string::npos) << r.err;
  }
}

}  // namespace
}  // namespace reprise::test
