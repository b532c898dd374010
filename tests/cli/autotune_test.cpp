#include "apps/common/autotune.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "apps/common/devices.h"
#include "tests/support/onnx_writer.h"
#include "tests/support/paths.h"

namespace reprise::app {
namespace {

TEST(Autotune, SelectTakesTheFastestRightCandidate) {
  std::vector<CandidateTime> c{{"default", 5, false}, {"wrong", 1, true}, {"fast", 3, false}};
  EXPECT_EQ(select(c), "fast");
  EXPECT_EQ(c.back().schedule, "wrong");
  std::vector<CandidateTime> none{{"default", 5, true}, {"other", 4, true}};
  EXPECT_EQ(select(none), "default");
}

TEST(Autotune, CacheReadsWhatItWroteAndRefusesTheRest) {
  const test::TempDir dir;
  DeviceInfo device;
  device.driver_version = 7;
  const ChoiceCache cache(dir / "kept", device);
  std::map<std::string, std::string> read{{"stale", "x"}};
  EXPECT_TRUE(cache.read(read).ok());
  EXPECT_TRUE(read.empty());
  const std::map<std::string, std::string> choices{{"a", "tile 1"}, {"b", "tile 2"}};
  ASSERT_TRUE(cache.write(choices).ok());
  ASSERT_TRUE(cache.read(read).ok());
  EXPECT_EQ(read, choices);
  const std::string whole = [&] {
    std::ifstream in(cache.path());
    return std::string(std::istreambuf_iterator<char>(in), {});
  }();
  for (const std::string& bad :
       {whole.substr(0, whole.size() / 2), std::string("[]"), std::string("{}"),
        std::string(R"({"form": "reprise-schedules-1", "choices": {"a": 3}})"), std::string()}) {
    test::write_file(cache.path(), bad);
    EXPECT_FALSE(cache.read(read).ok()) << bad;
    EXPECT_TRUE(read.empty());
  }
  DeviceInfo other = device;
  other.driver_version = 8;
  EXPECT_NE(ChoiceCache(dir / "kept", other).path(), cache.path());
}

/// A matmul model, a device, and options that measure little.
class AutotuneOnDevice : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; !device_.device; ++i) {
      auto device = open_named_device("vulkan:" + std::to_string(i), {});
      if (!device.ok()) GTEST_SKIP() << "no device with several schedules";
      if (device->info.facts.subgroup_size == 8) device_ = std::move(*device);
    }
    test::OnnxWriter w;
    w.input("x", DType::F32, {24, 40}).output("y", DType::F32, {24, 72});
    w.initializer("w", test::float_tensor({40, 72}));
    w.node("MatMul", {"x", "w"}, {"y"});
    path_ = dir_ / "model.onnx";
    test::write_file(path_, w.bytes());
    compile_.targets = targets_for(device_);
    options_.cache_dir = dir_ / "cache";
    options_.candidates = 3;
    options_.rounds = 2;
    options_.inputs = [](const Model& m) {
      std::vector<std::string> notes;
      return make_inputs(m.package->io, {}, notes);
    };
    options_.warning = [this](const std::string& line) { warnings_.push_back(line); };
  }

  test::TempDir dir_;
  OpenedDevice device_;
  std::string path_;
  CompileOptions compile_;
  AutotuneOptions options_;
  std::vector<std::string> warnings_;
};

TEST_F(AutotuneOnDevice, TheSecondStartMeasuresNothing) {
  AutotuneReport first, second;
  ASSERT_TRUE(autotune(path_, compile_, device_, options_, &first).ok());
  ASSERT_EQ(first.kernels.size(), 1U);
  const size_t candidates = first.kernels[0].candidates.size();
  EXPECT_EQ(candidates, options_.candidates);
  EXPECT_EQ(first.runs, static_cast<int>(candidates) * options_.rounds);
  auto again = autotune(path_, compile_, device_, options_, &second);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(second.runs, 0);
  ASSERT_EQ(second.kernels.size(), 1U);
  EXPECT_TRUE(second.kernels[0].from_cache);
  EXPECT_EQ(second.kernels[0].schedule, first.kernels[0].schedule);
  EXPECT_TRUE(warnings_.empty());

  test::write_file(ChoiceCache(options_.cache_dir, device_.info).path(), "{");
  AutotuneReport third;
  ASSERT_TRUE(autotune(path_, compile_, device_, options_, &third).ok());
  EXPECT_GT(third.runs, 0);
  EXPECT_EQ(warnings_.size(), 1U);
}

TEST_F(AutotuneOnDevice, AWrongCandidateIsRejectedByItsResult) {
  options_.cache_dir.clear();
  options_.on_candidate = [](size_t candidate, package::Package& p) {
    if (candidate != 1) return;
    constexpr uint32_t kAdd = 129, kSub = 131;  // OpFAdd, OpFSub
    for (package::Variant& v : p.variants) {
      for (plan::KernelCode& k : v.plan.kernels) {
        for (size_t at = 5; at < k.spirv.size() && k.spirv[at] >> 16 != 0;
             at += k.spirv[at] >> 16) {
          if ((k.spirv[at] & 0xffff) == kAdd) k.spirv[at] = (k.spirv[at] & 0xffff0000U) | kSub;
        }
      }
    }
  };
  AutotuneReport report;
  ASSERT_TRUE(autotune(path_, compile_, device_, options_, &report).ok());
  ASSERT_EQ(report.kernels.size(), 1U);
  const TunedKernel& k = report.kernels[0];
  EXPECT_TRUE(k.candidates.back().rejected);
  EXPECT_FALSE(k.candidates.front().rejected);
  EXPECT_NE(k.schedule, k.candidates.back().schedule);
}

}  // namespace
}  // namespace reprise::app
