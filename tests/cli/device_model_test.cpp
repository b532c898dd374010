// explain --device-model. No GPU is needed, NVRTC is.
#include <gtest/gtest.h>

#include <cstdlib>

#include "codegen/nvrtc/library.h"
#include "tests/cli/run_reprise.h"
#include "tests/support/onnx_writer.h"

namespace reprise::test {
namespace {

class ExplainedTimes : public testing::Test {
 protected:
  void SetUp() override {
    write_model(model_, 256);
    const char* path = std::getenv("REPRISE_NVRTC");
    if (!nvrtc::Library::open(path ? path : "").ok())
      GTEST_SKIP() << "NVRTC is missing: tools/nvrtc brings it";
  }

  static void write_model(const std::string& file, const Dim& rows) {
    OnnxWriter m;
    m.input("x", DType::F32, {rows, 256}).output("y", DType::F32, {rows, 256});
    m.initializer("w", float_tensor({256, 256}));
    m.node("MatMul", {"x", "w"}, {"p"}).node("Softmax", {"p"}, {"y"});
    write_file(file, m.bytes());
  }

  TempDir dir_;
  std::string model_ = dir_ / "m.onnx";
};

/// Only PATH decides whether there is a disassembler.
ProcessResult without_disassembler(std::vector<std::string> args) {
  args.insert(args.begin(), program("reprise"));
  return run_process(args, {"PATH=/nowhere"});
}

TEST_F(ExplainedTimes, ARowForEachLaunchWithItsTerms) {
  const Json json = json_of({"explain", model_, "--device-model", "h200"});
  EXPECT_EQ(json["variant"], "cuda-sm_90a");
  const Json& model = json["device_model"];
  EXPECT_EQ(model["device"], "h200");
  ASSERT_EQ(model["kernels"].size(), json["launches"]);
  double sum = 0;
  for (const Json& k : model["kernels"]) {
    double most = 0;
    std::string bound;
    for (const auto& [name, ms] : k["terms"].items()) {
      EXPECT_GE(ms, 0) << name;
      if (ms > most && name != "waves_ms") bound = name;
      if (name != "waves_ms") most = std::max(most, ms.get<double>());
    }
    EXPECT_GT(most, 0);
    EXPECT_GE(k["predicted_ms"], most);
    EXPECT_EQ(k["bound_by"].get<std::string>() + "_ms", bound);
    EXPECT_GT(k["warp_instructions"], 0);
    sum += k["predicted_ms"].get<double>();
  }
  EXPECT_NEAR(model["predicted_ms"], sum, 1e-9);
  const double whole = 256 * 256 * 4;
  EXPECT_GE(model["kernels"][0]["l2_bytes"], whole / 64);
  EXPECT_GE(model["kernels"][0]["bytes"], 3 * whole);
}

TEST_F(ExplainedTimes, TheTextSaysThatItIsAModel) {
  const ProcessResult r = reprise({"explain", model_, "--device-model", "h200"});
  EXPECT_EQ(r.status, 0) << r.err;
  for (const char* text : {"not a measurement", "issue", "matrix", "special", "shared", "L2",
                           "DRAM", "chain", "waves", "bound by", "None of its numbers is fitted"})
    EXPECT_NE(r.out.find(text), std::string::npos) << text << "\n" << r.out;
  const ProcessResult other = reprise({"explain", model_, "--device-model", "rtx4090"});
  EXPECT_NE(other.out.find("A model of NVIDIA GeForce RTX 4090, not a measurement"),
            std::string::npos)
      << other.out << other.err;
}

TEST_F(ExplainedTimes, InstructionsOfPtxCountWithoutADisassembler) {
  const ProcessResult r = without_disassembler({"explain", model_, "--device-model", "h200"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("Instructions are counted in PTX"), std::string::npos) << r.out;
  const Json json =
      json_of({"explain", model_, "--device-model", "h200", "--targets", "cuda:compute_90"});
  for (const Json& k : json["device_model"]["kernels"]) EXPECT_EQ(k["instructions_from"], "ptx");
}

TEST_F(ExplainedTimes, PackagesNeedTheirText) {
  const std::string package = dir_ / "m.rpk";
  const std::vector<std::string> compile{"compile", model_,      "-o",
                                         package,   "--targets", "cuda:sm_90"};
  ASSERT_EQ(reprise(compile).status, 0);
  const ProcessResult bare = reprise({"explain", package, "--device-model", "h200"});
  EXPECT_EQ(bare.status, 3);
  EXPECT_NE(bare.err.find("--keep-source"), std::string::npos) << bare.err;
  std::vector<std::string> kept = compile;
  kept.emplace_back("--keep-source");
  ASSERT_EQ(reprise(kept).status, 0);
  const Json json = json_of({"explain", package, "--device-model", "h200"});
  EXPECT_GT(json["device_model"]["predicted_ms"], 0);
}

TEST_F(ExplainedTimes, DynamicSizesAreLeftOut) {
  const std::string dynamic = dir_ / "d.onnx";
  write_model(dynamic, "n");
  const ProcessResult r = reprise({"explain", dynamic, "--device-model", "h200"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("give them with --shape"), std::string::npos) << r.out;
  const Json json = json_of({"explain", dynamic, "--device-model", "h200", "--shape", "x=128x256"});
  EXPECT_EQ(json["device_model"]["dynamic_launches"], 0) << json["device_model"];
}

TEST(ExplainedTimesErrors, UnknownDevicesAndOtherTargets) {
  TempDir dir;
  const std::string model = dir / "m.onnx";
  OnnxWriter m;
  m.input("x", DType::F32, {4}).output("y", DType::F32, {4}).node("Relu", {"x"}, {"y"});
  write_file(model, m.bytes());
  const ProcessResult unknown = reprise({"explain", model, "--device-model", "b300"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.err.find("h200, a100, rtx4090, rtx5090"), std::string::npos) << unknown.err;
  const ProcessResult other =
      reprise({"explain", model, "--device-model", "h200", "--targets", "vulkan-baseline"});
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(other.err.find("give --targets cuda:sm_90a"), std::string::npos) << other.err;
  EXPECT_NE(reprise({"explain", "--help"}).out.find("--device-model"), std::string::npos);
  EXPECT_TRUE(json_of({"explain", model, "--device", "host"})["device_model"].is_null());
}

}  // namespace
}  // namespace reprise::test
