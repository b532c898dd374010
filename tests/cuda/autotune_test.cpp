// Measured schedules where a candidate takes the device down.
#include "codegen/autotune/autotune.h"

#include "apps/common/devices.h"
#include "on_standin.h"
#include "runtime/base/cuda_entry.h"
#include "tests/nvrtc/support.h"
#include "tests/support/kept_text.h"
#include "tests/support/tuning.h"

namespace reprise::app {
namespace {

/// Gives every kernel another name, in its text as well.
void rename_kernels(package::Package& p, const std::string& name) {
  for (package::Variant& v : p.variants) {
    for (plan::KernelCode& k : v.plan.kernels) {
      const std::string from = cuda_entry(k.name), to = cuda_entry(name);
      for (size_t at = 0; (at = k.cuda.find(from, at)) != std::string::npos; at += to.size())
        k.cuda.replace(at, from.size(), to);
      k.name = name;
    }
  }
  test::keep_changed_texts(p);
}

class AutotuneFaults : public test::OnStandin {
 protected:
  void SetUp() override {
    OnStandin::SetUp();
    if (IsSkipped()) return;
    REPRISE_NEEDS_NVRTC();
    path_ = dir_ / "model.onnx";
    test::write_product(path_);
    auto device = open_device("cuda");
    ASSERT_TRUE(device.ok()) << device.status().message();
    device_ = std::move(*device);
    compile_.targets = {"cuda"};
    compile_.device = device_.info.facts;
    compile_.nvrtc = test::nvrtc_path();
    compile_.keep_source = true;
    compile_.cuda_cache_dir = cuda_cache_dir();
    options_ = test::short_tuning(3);
    options_.reopen = [this]() -> Result<std::shared_ptr<Device>> {
      ++reopened_;
      RP_ASSIGN(OpenedDevice again, open_device("cuda"));
      return std::move(again.device);
    };
    // Only what the second and third candidate are called differs.
    options_.on_candidate = [](size_t candidate, package::Package& p) {
      if (candidate == 1 || candidate == 2) rename_kernels(p, candidate == 1 ? "second" : "third");
    };
  }

  void TearDown() override {
    device_ = {};
    OnStandin::TearDown();
  }

  /// Tunes; then the device runs the model, and the candidate was rejected for its fault.
  void tune_past_a_fault() {
    auto model = autotune(path_, compile_, device_.device, options_, &report_);
    ASSERT_TRUE(model.ok()) << model.status().message();
    ASSERT_EQ(report_.kernels.size(), 1U);
    const auto& candidates = report_.kernels[0].candidates;
    ASSERT_EQ(candidates.size(), 3U);
    EXPECT_FALSE(candidates[0].rejected);
    EXPECT_FALSE(candidates[1].rejected);
    EXPECT_GT(candidates[0].us, 0);
    EXPECT_GT(candidates[1].us, 0);
    EXPECT_TRUE(candidates[2].rejected);
    EXPECT_NE(candidates[2].reason.find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos)
        << candidates[2].reason;
    auto session = Session::create(model->package, device_.device);
    ASSERT_TRUE(session.ok()) << session.status().message();
    auto inputs = options_.inputs(*model->package);
    ASSERT_TRUE(inputs.ok());
    const Binding x{.name = "x", .host = inputs->data()};
    EXPECT_TRUE((*session)->run({&x, 1}).ok());
  }

  test::TempDir dir_;
  OpenedDevice device_;
  std::string path_;
  CompileOptions compile_;
  AutotuneOptions options_;
  AutotuneReport report_;
  int reopened_ = 0;
};

TEST_F(AutotuneFaults, InTheFirstRun) {
  set("FAULT", "second");
  tune_past_a_fault();
  EXPECT_EQ(reopened_, 1);
}

TEST_F(AutotuneFaults, WhileItIsMeasured) {
  options_.progress = [this](const std::string& line) {
    if (line.starts_with("measuring, round 2")) set("FAULT", "third");
  };
  tune_past_a_fault();
  EXPECT_EQ(reopened_, 1);
}

/// What comes before the text of the default's kernels, so that another is chosen.
constexpr const char* kWrong = "#define rp_fma(a, b, c) (c)\n";
constexpr const char* kSlow =
    "__device__ float slow_fma(float a, float b, float c) {\n"
    "  volatile int n = 0;\n"
    "  while (n < 500) n = n + 1;\n"
    "  return rp_fma(a, b, c);\n"
    "}\n"
    "#define rp_fma(a, b, c) slow_fma(a, b, c)\n";

/// The model of what was chosen, which runs last, is called "together".
void inject(size_t candidate, const std::string& before_default, package::Package& p) {
  for (plan::KernelCode& k : p.variants[0].plan.kernels)
    if (candidate == 0) k.cuda = before_default + k.cuda;
  test::keep_changed_texts(p);
  if (candidate > 2) rename_kernels(p, "together");
}

TEST_F(AutotuneFaults, OfTheChosenSchedulesTogetherLeaveTheDefault) {
  options_.on_candidate = [](size_t candidate, package::Package& p) {
    inject(candidate, kSlow, p);
  };
  std::string said;
  options_.progress = [&](const std::string& line) { said = line; };
  set("FAULT", "together");
  const auto model = autotune(path_, compile_, device_.device, options_, &report_);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(reopened_, 1);
  ASSERT_EQ(report_.kernels.size(), 1U);
  EXPECT_EQ(report_.kernels[0].schedule, report_.kernels[0].candidates.back().schedule);
  for (const auto& c : report_.kernels[0].candidates) EXPECT_FALSE(c.rejected) << c.reason;
  EXPECT_NE(said.find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << said;
  EXPECT_TRUE(Session::create(model->package, device_.device).ok());
}

TEST_F(AutotuneFaults, OfTheChosenSchedulesTogetherAreAnErrorWhereTheDefaultIsWrong) {
  options_.cache_dir = dir_ / "kept";
  options_.on_candidate = [](size_t candidate, package::Package& p) {
    inject(candidate, kWrong, p);
  };
  set("FAULT", "together");
  for (int tuning = 1; tuning <= 2; ++tuning) {  // nothing is kept
    const auto model = autotune(path_, compile_, device_.device, options_, &report_);
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.status().code(), Code::Device);
    for (const char* part : {"default ones output 'y' is wrong", "CUDA_ERROR_ILLEGAL_ADDRESS"})
      EXPECT_NE(model.status().message().find(part), std::string::npos) << model.status().message();
    EXPECT_EQ(reopened_, tuning);
  }
}

TEST_F(AutotuneFaults, WithoutAnotherDeviceTheErrorSaysWhy) {
  options_.reopen = nullptr;
  set("FAULT", "second");
  const auto model = autotune(path_, compile_, device_.device, options_, &report_);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), Code::Device);
  EXPECT_NE(model.status().message().find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos);
}

}  // namespace
}  // namespace reprise::app
