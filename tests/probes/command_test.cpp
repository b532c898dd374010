// `reprise check` on healthy drivers and on ones with faults.
#include "tests/cli/run_reprise.h"
#include "tests/probes/checks.h"
#include "tests/support/onnx_writer.h"

namespace reprise::test {
namespace {

// Shuffle becomes ShuffleXor: only variants of a known subgroup size use it.
constexpr const char* kWrongShuffles = "opcode:345:346";

class CheckCommand : public testing::Test {
 protected:
  void SetUp() override {
    OnnxWriter model;
    model.input("x", DType::F32, {96, 128}).input("w", DType::F32, {128, 64});
    model.output("y", DType::F32, {96, 64}).node("MatMul", {"x", "w"}, {"y"});
    onnx_ = (folder_ / "model.onnx").string();
    package_ = (folder_ / "model.rpk").string();
    write_file(onnx_, model.bytes());
    const ProcessResult r = reprise({"compile", onnx_, "-o", package_});
    ASSERT_EQ(r.status, 0) << r.err;
    for (const auto& d : devices()) {
      if (d->info().facts.subgroup_arithmetic && d->info().facts.subgroup_size == 8)
        device_ = d->info().id;
    }
    ASSERT_FALSE(device_.empty()) << "no device with subgroups of 8";
  }

  /// With faults.
  static Json check(std::vector<std::string> args, const std::string& faults, int status) {
    args.insert(args.begin(), {program("reprise").string(), "check"});
    args.insert(args.end(), {"--json", "-"});
    const ProcessResult r = run_process(args, {"REPRISE_FAULTS=" + faults});
    EXPECT_EQ(r.status, status) << r.err;
    Json json = Json::parse(r.out, nullptr, false);
    EXPECT_FALSE(json.is_discarded()) << r.out;
    return json;
  }

  const TempDir folder_;
  std::string onnx_, package_, device_;
};

TEST_F(CheckCommand, PassesModelsPackagesAndItsOwnGraphs) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{}, {onnx_}, {package_}, {package_, "--runs", "5"}}) {
    const Json rows = check(args, "", 0);
    ASSERT_GE(rows.size(), 1U);
    for (const Json& row : rows) EXPECT_EQ(row.at("status"), "pass") << row;
  }
}

TEST_F(CheckCommand, NamesWhatReplacesAWrongVariant) {
  for (const std::string& model : {onnx_, package_}) {
    const Json rows = check({model, "--device", device_}, kWrongShuffles, 1);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].at("status"), "wrong");
    EXPECT_GT(rows[0].at("max_error"), 0);
    const std::string other = rows[0].at("replaced_by");
    EXPECT_TRUE(other.starts_with("vulkan-")) << other;
  }
  const Json rows = check({package_, "--device", device_}, "constant:0:0.25", 1);
  EXPECT_EQ(rows.at(0).at("replaced_by"), "host");
}

TEST_F(CheckCommand, SeesRunsThatAreLost) {
  const Json rows = check({package_, "--device", device_, "--runs", "20"}, "skip:10", 1);
  EXPECT_EQ(rows.at(0).at("status"), "varies");
}

TEST_F(CheckCommand, IsWhatRunDoesWhenAsked) {
  const std::vector<std::string> args{program("reprise"), "verify", package_,
                                      "--device",         device_,  "--check-kernels"};
  const std::vector<std::string> environment{std::string("REPRISE_FAULTS=") + kWrongShuffles,
                                             "XDG_CACHE_HOME=" + folder_.path().string()};
  const ProcessResult right = run_process(args, environment);
  EXPECT_EQ(right.status, 0) << right.out << right.err;
  EXPECT_NE(right.err.find("is not used"), std::string::npos) << right.err;
  const ProcessResult wrong = run_process({args.begin(), args.end() - 1}, environment);
  EXPECT_EQ(wrong.status, 1) << wrong.out << wrong.err;
}

TEST_F(CheckCommand, RefusesTheHostAndSaysWhenThereAreNoProbes) {
  const ProcessResult host = reprise({"check", onnx_, "--device", "host"});
  EXPECT_EQ(host.status, 2) << host.err;
  ASSERT_EQ(reprise({"compile", onnx_, "-o", package_, "--no-probes"}).status, 0);
  const Json rows = check({package_, "--device", device_}, kWrongShuffles, 0);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].at("status"), "skipped");
  EXPECT_NE(std::string(rows[0].at("reason")).find("without probes"), std::string::npos);
}

}  // namespace
}  // namespace reprise::test
