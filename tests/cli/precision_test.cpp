// --precision, from the option to the package, what explain says of it and what verify allows.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/run_reprise.h"
#include "tests/support/onnx_writer.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

/// Two layers with weights that are worth narrowing, and an exponential that is not.
class Precision : public testing::Test {
 protected:
  void SetUp() override {
    OnnxWriter m;
    m.input("x", DType::F32, {"n", 1024}).output("y", DType::F32, {"n", 64});
    m.initializer("w", float_tensor({1024, 1024}, 0.01F))
        .initializer("v", float_tensor({1024, 64}, 1, 0.5F));
    m.node("MatMul", {"x", "w"}, {"a"}).node("Relu", {"a"}, {"b"});
    m.node("Softmax", {"b"}, {"c"}).node("MatMul", {"c", "v"}, {"y"});
    model_ = dir_ / "m.onnx";
    write_file(model_, m.bytes());
  }

  TempDir dir_;
  std::string model_;
};

TEST_F(Precision, VerifyAllowsWhatThePrecisionCosts) {
  const std::vector<std::string> verify{"verify", model_,    "--device",
                                        "vulkan", "--shape", "x=3x1024"};
  const auto with = [&](std::vector<std::string> more, int status = 0) {
    more.insert(more.begin(), verify.begin(), verify.end());
    return json_of(more, status);
  };
  EXPECT_EQ(with({})["precision"], "fp32");
  for (const char* precision : {"fp16", "bf16"}) {
    const Json json = with({"--precision", precision});
    EXPECT_EQ(json["precision"], precision);
    EXPECT_EQ(json["outputs"][0]["ok"], true);
    // Weights were rounded: no device computes what the reference does.
    EXPECT_GT(json["outputs"][0]["max_relative_error"].get<double>(), 1e-6);
    EXPECT_EQ(json["outputs"][0]["tolerance"], precision == std::string("fp16") ? 1e-2 : 2e-2);
    EXPECT_EQ(with({"--precision", precision, "--tolerance", "1e-9"}, 1)["outputs"][0]["ok"],
              false);
  }
}

TEST_F(Precision, PackagesAreHalfAsLarge) {
  const auto compiled = [&](const std::string& precision) {
    const std::string path = dir_ / (precision + ".rpk");
    return json_of({"compile", model_, "-o", path, "--precision", precision, "--targets",
                    "vulkan-cpu-int64,vulkan-cpu"})["bytes"]
        .get<double>();
  };
  const double full = compiled("fp32");
  // Beside 4.3 MB of weights, a package has kernels and metadata, in steps of 64 KB.
  EXPECT_LT(compiled("fp16"), 0.65 * full);
  EXPECT_LT(compiled("bf16"), 0.65 * full);
  const Json json = json_of({"verify", dir_ / "bf16.rpk", "--device", "vulkan"});
  EXPECT_EQ(json["precision"], "bf16");
  EXPECT_EQ(json["outputs"][0]["ok"], true);
}

/// On the host, too, constants that become positions stay as they are: fp16 cannot hold 8191.
TEST_F(Precision, HostReadsPositionsInFull) {
  OnnxWriter m;
  m.input("x", DType::F32, {8192}).output("y", DType::F32, {8192});
  HostTensor at(DType::F32, {8192});
  for (int i = 0; i < 8192; ++i) at.mutable_data<float>()[i] = static_cast<float>(8191 - i);
  m.initializer("at", at);
  AttrMap to;
  to.set("to", int64_t{7});
  m.node("Cast", {"at"}, {"i"}, {"cast", "", to});
  m.node("Gather", {"x", "i"}, {"y"});
  const std::string model = dir_ / "gather.onnx", package = dir_ / "gather.rpk";
  write_file(model, m.bytes());
  for (const char* precision : {"fp16", "bf16"}) {
    ASSERT_EQ(reprise({"compile", model, "-o", package, "--precision", precision}).status, 0);
    const Json json = json_of({"verify", package, "--device", "vulkan", "--tolerance", "0"});
    EXPECT_EQ(json["outputs"][0]["ok"], true) << precision;
    const auto run = [&](const std::string& what) {
      const fs::path out = dir_ / "out";
      EXPECT_EQ(reprise({"run", what, "--device", "host", "--output-dir", out}).status, 0);
      return read_file(out / "0.npy");
    };
    EXPECT_EQ(run(package), run(model)) << precision;
  }
}

TEST_F(Precision, ExplainSaysWhatStays) {
  const Json json = json_of({"explain", model_, "--precision", "fp16"});
  EXPECT_EQ(json["precision"], "fp16");
  EXPECT_GE(json["narrowed"], 3);  // the product, its Relu, the softmax's quotient
  bool exponential = false, output = false;
  for (const Json& k : json["kept_fp32"]) {
    exponential = exponential || k["op"] == "Exp";
    output = output || (k["op"] == "MatMul" && k["reason"] == "is an output of the model");
    EXPECT_FALSE(k["node"].get<std::string>().empty());
  }
  EXPECT_TRUE(exponential && output) << json["kept_fp32"];
  EXPECT_EQ(json_of({"explain", model_})["kept_fp32"], Json::array());
  const ProcessResult text = reprise({"explain", model_, "--precision", "bf16"});
  EXPECT_NE(text.out.find("are bf16 in memory"), std::string::npos) << text.out;
}

TEST_F(Precision, WrongUseIsRefused) {
  EXPECT_EQ(reprise({"verify", model_, "--precision", "fp8"}).status, 2);
  const std::string package = dir_ / "m.rpk";
  ASSERT_EQ(reprise({"compile", model_, "-o", package}).status, 0);
  const ProcessResult r = reprise({"run", package, "--precision", "fp16"});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("--precision"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace reprise::test
