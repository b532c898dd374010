#include "codegen/autotune/autotune.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "apps/common/devices.h"
#include "apps/common/model.h"
#include "codegen/autotune/choice_cache.h"
#include "tests/support/paths.h"
#include "tests/support/tuning.h"

namespace reprise::app {
namespace {

TEST(Autotune, SelectTakesTheFastestRightCandidate) {
  std::vector<CandidateTime> c{{"default", 5, false}, {"wrong", 1, true}, {"fast", 3, false}};
  EXPECT_EQ(select(c), "fast");
  EXPECT_EQ(c.back().schedule, "wrong");
  std::vector<CandidateTime> close{{"default", 5, false}, {"noise", 4.9, false}};
  EXPECT_EQ(select(close), "default");
  std::vector<CandidateTime> wrong{{"default", 5, true}, {"right", 9, false}};
  EXPECT_EQ(select(wrong), "right");
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

TEST(Autotune, CacheKeepsWhatOthersWroteAndDropsWhatTheyAbandoned) {
  const test::TempDir dir;
  const DeviceInfo device;
  const ChoiceCache cache(dir / "kept", device);
  ASSERT_TRUE(cache.write({{"a", "ours"}, {"b", "ours"}}).ok());
  ASSERT_TRUE(ChoiceCache(dir / "kept", device).write({{"b", "theirs"}, {"c", "theirs"}}).ok());
  std::map<std::string, std::string> read;
  ASSERT_TRUE(cache.read(read).ok());
  const std::map<std::string, std::string> both{{"a", "ours"}, {"b", "theirs"}, {"c", "theirs"}};
  EXPECT_EQ(read, both);
  const std::filesystem::path old = cache.path() + ".1.part", young = cache.path() + ".2.part";
  test::write_file(old, "{");
  test::write_file(young, "{");
  std::filesystem::last_write_time(
      old, std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  ASSERT_TRUE(cache.write({}).ok());
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::exists(young));  // another process may be writing it
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
    path_ = dir_ / "model.onnx";
    test::write_product(path_);
    compile_.targets = targets_for(device_);
    options_ = test::short_tuning(2);
    options_.cache_dir = dir_ / "cache";
    options_.warning = [this](const std::string& line) { warnings_.push_back(line); };
  }

  test::TempDir dir_;
  OpenedDevice device_;
  std::string path_;
  CompileOptions compile_;
  AutotuneOptions options_;
  std::vector<std::string> warnings_;
};

TEST_F(AutotuneOnDevice, TunesTheKernelsOfBodies) {
  path_ = test::own_cases("control_flow") / "loop_counted_by_an_input/model.onnx";
  options_.inputs = [](const package::Package& p) -> Result<std::vector<HostTensor>> {
    std::vector<std::string> notes;
    RP_ASSIGN(InputSet set, make_inputs(p.io, {}, notes));
    for (HostTensor& t : set.tensors)
      if (t.dtype() == DType::I64) t = HostTensor::from<int64_t>(DType::I64, t.dims(), {3});
    return std::move(set.tensors);
  };
  AutotuneReport first, second;
  ASSERT_TRUE(autotune(path_, compile_, device_.device, options_, &first).ok());
  ASSERT_FALSE(first.kernels.empty()) << "no kernel of the body has several schedules";
  for (const CandidateTime& c : first.kernels[0].candidates) {
    EXPECT_FALSE(c.rejected) << c.schedule << ": " << c.reason;
    EXPECT_GT(c.us, 0) << c.schedule;
  }
  ASSERT_TRUE(autotune(path_, compile_, device_.device, options_, &second).ok());
  EXPECT_EQ(second.runs, 0);
}

TEST_F(AutotuneOnDevice, TheSecondStartMeasuresNothing) {
  AutotuneReport first, second;
  ASSERT_TRUE(autotune(path_, compile_, device_.device, options_, &first).ok());
  ASSERT_EQ(first.kernels.size(), 1U);
  const size_t candidates = first.kernels[0].candidates.size();
  EXPECT_EQ(candidates, options_.candidates);
  // All candidates, and the default beside what was chosen if that is another.
  const int confirmed = first.tuned_us > 0 ? 2 : 0;
  EXPECT_EQ(first.runs, (static_cast<int>(candidates) + confirmed) * options_.rounds);
  auto again = autotune(path_, compile_, device_.device, options_, &second);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(second.runs, 0);
  ASSERT_EQ(second.kernels.size(), 1U);
  EXPECT_TRUE(second.kernels[0].from_cache);
  EXPECT_EQ(second.kernels[0].schedule, first.kernels[0].schedule);
  EXPECT_TRUE(warnings_.empty());

  test::write_file(ChoiceCache(options_.cache_dir, device_.info).path(), "{");
  AutotuneReport third;
  ASSERT_TRUE(autotune(path_, compile_, device_.device, options_, &third).ok());
  EXPECT_GT(third.runs, 0);
  EXPECT_EQ(warnings_.size(), 1U);
}

/// Makes every kernel subtract where it should add.
void inject_fault(package::Package& p) {
  constexpr uint32_t kAdd = 129, kSub = 131;  // OpFAdd, OpFSub
  for (package::Variant& v : p.variants) {
    for (plan::KernelCode& k : v.plan.kernels) {
      for (size_t at = 5; at < k.spirv.size() && k.spirv[at] >> 16 != 0; at += k.spirv[at] >> 16) {
        if ((k.spirv[at] & 0xffff) == kAdd) k.spirv[at] = (k.spirv[at] & 0xffff0000U) | kSub;
      }
    }
  }
}

TEST_F(AutotuneOnDevice, AWrongCandidateIsRejectedByItsResult) {
  options_.cache_dir.clear();
  options_.on_candidate = [](size_t candidate, package::Package& p) {
    if (candidate == 1) inject_fault(p);
  };
  AutotuneReport report;
  ASSERT_TRUE(autotune(path_, compile_, device_.device, options_, &report).ok());
  ASSERT_EQ(report.kernels.size(), 1U);
  const TunedKernel& k = report.kernels[0];
  EXPECT_TRUE(k.candidates.back().rejected);
  EXPECT_NE(k.candidates.back().reason.find("is wrong"), std::string::npos);
  EXPECT_FALSE(k.candidates.front().rejected);
  EXPECT_NE(k.schedule, k.candidates.back().schedule);
}

/// No driver takes these.
void inject_empty_kernels(package::Package& p) {
  for (package::Variant& v : p.variants)
    for (plan::KernelCode& k : v.plan.kernels) k.spirv.clear();
}

TEST_F(AutotuneOnDevice, ACandidateThatDoesNotLoadIsRejectedWithTheReason) {
  options_.cache_dir.clear();
  options_.on_candidate = [](size_t candidate, package::Package& p) {
    if (candidate == 1) inject_empty_kernels(p);
  };
  AutotuneReport report;
  ASSERT_TRUE(autotune(path_, compile_, device_.device, options_, &report).ok());
  ASSERT_EQ(report.kernels.size(), 1U);
  EXPECT_TRUE(report.kernels[0].candidates.back().rejected);
  EXPECT_NE(report.kernels[0].candidates.back().reason.find("holds no SPIR-V module"),
            std::string::npos);
}

TEST_F(AutotuneOnDevice, TheBudgetEndsTheMeasurement) {
  options_.cache_dir.clear();
  options_.budget_s = 0;
  options_.rounds = 50;
  AutotuneReport report;
  ASSERT_TRUE(autotune(path_, compile_, device_.device, options_, &report).ok());
  ASSERT_EQ(report.kernels.size(), 1U);
  EXPECT_EQ(report.kernels[0].candidates.size(), 2U);
  EXPECT_LE(report.runs, 2 * 3 + 2 * 50);  // three rounds, and those that confirm
}

TEST_F(AutotuneOnDevice, WhereNothingIsRightNothingIsKept) {
  const struct {
    const char* what;
    std::function<bool(size_t)> wrong;
  } cases[] = {{"together", [&](size_t c) { return c == 0 || c >= options_.candidates; }},
               {"every one", [](size_t) { return true; }}};
  for (const auto& c : cases) {
    options_.on_candidate = [&](size_t candidate, package::Package& p) {
      if (c.wrong(candidate)) inject_fault(p);
    };
    for (int tuning = 0; tuning < 2; ++tuning) {
      const auto model = autotune(path_, compile_, device_.device, options_);
      ASSERT_FALSE(model.ok()) << c.what;
      EXPECT_EQ(model.status().code(), Code::Device);
      EXPECT_NE(model.status().message().find("default ones output 'y' is wrong; with others"),
                std::string::npos)
          << model.status().message();
    }
  }
  options_.on_candidate = nullptr;
  AutotuneReport report;
  ASSERT_TRUE(autotune(path_, compile_, device_.device, options_, &report).ok());
  EXPECT_GT(report.runs, 0);
}

TEST_F(AutotuneOnDevice, KeptChoicesMustBeRightInThisModel) {
  options_.on_candidate = [](size_t candidate, package::Package& p) {
    if (candidate == 0) inject_fault(p);
  };
  AutotuneReport first, second, third;
  ASSERT_TRUE(autotune(path_, compile_, device_.device, options_, &first).ok());
  ASSERT_EQ(first.kernels.size(), 1U);
  const std::string kept = first.kernels[0].schedule;
  EXPECT_NE(kept, first.kernels[0].candidates.back().schedule);  // the default
  ASSERT_TRUE(autotune(path_, compile_, device_.device, options_, &second).ok());
  EXPECT_EQ(second.runs, 0);
  ASSERT_EQ(second.kernels.size(), 1U);
  EXPECT_EQ(second.kernels[0].schedule, first.kernels[0].candidates.back().schedule);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_EQ(warnings_[0], "cached schedules are not used: output 'y' is wrong");
  options_.on_candidate = nullptr;
  ASSERT_TRUE(autotune(path_, compile_, device_.device, options_, &third).ok());
  EXPECT_EQ(third.kernels[0].schedule, second.kernels[0].schedule);
  EXPECT_EQ(warnings_.size(), 1U);
}

TEST_F(AutotuneOnDevice, WithoutRightOnesKeptChoicesAreAnError) {
  options_.on_candidate = [](size_t candidate, package::Package& p) {
    if (candidate == 0) inject_fault(p);
  };
  AutotuneReport report;
  ASSERT_TRUE(autotune(path_, compile_, device_.device, options_, &report).ok());
  ASSERT_EQ(report.kernels.size(), 1U);
  EXPECT_NE(report.kernels[0].schedule, report.kernels[0].candidates.back().schedule);
  options_.on_candidate = [](size_t, package::Package& p) { inject_fault(p); };
  for (int tuning = 0; tuning < 2; ++tuning)
    EXPECT_EQ(autotune(path_, compile_, device_.device, options_).status().code(), Code::Device);
}

/// A chaotic function of x: each step multiplies errors by hundreds.
void write_amplifier(const std::string& path) {
  test::OnnxWriter w;
  w.input("x", DType::F32, {24, 24});
  w.initializer("w", test::float_tensor({24, 24}));
  w.initializer("large", test::float_tensor({1}, 0, 300));
  std::string at = "x";
  for (const char* step : {"a", "b", "c", "d", "e", "f"}) {
    const std::string s = step;
    w.node("MatMul", {at, "w"}, {s + "_product"});
    w.node("Sin", {s + "_product"}, {s + "_sin"});
    w.node("Mul", {s + "_sin", "large"}, {s});
    at = s;
  }
  w.output(at, DType::F32, {24, 24});
  test::write_file(path, w.bytes());
}

TEST_F(AutotuneOnDevice, AModelThatAmplifiesRoundingKeepsTheDefault) {
  write_amplifier(path_);
  AutotuneReport report;
  const auto model = autotune(path_, compile_, device_.device, options_, &report);
  ASSERT_TRUE(model.ok()) << model.status().message();
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_TRUE(report.amplifies);
  EXPECT_NE(warnings_[0].find("output 'f' is wrong, although each kernel by itself is right"),
            std::string::npos)
      << warnings_[0];
  for (const ScheduleChoice& c : model->report.schedules) EXPECT_EQ(c.chosen, 0U);
  EXPECT_FALSE(std::filesystem::exists(ChoiceCache(options_.cache_dir, device_.info).path()));
}

TEST_F(AutotuneOnDevice, ChoicesAreBakedIntoEveryVariantThatIsAskedFor) {
  AutotuneReport report;
  auto all = autotune(path_, compile_, device_.device, options_, &report);
  ASSERT_TRUE(all.ok());
  EXPECT_GT(all->package->variants.size(), 1U);
  compile_.device = device_.info.facts;
  auto own = autotune(path_, compile_, device_.device, options_, &report);
  ASSERT_TRUE(own.ok());
  ASSERT_EQ(own->package->variants.size(), 1U);
  const package::Variant& v = own->package->variants[0];
  EXPECT_TRUE(v.predicate.mismatch(device_.info.facts).empty());
  const auto& launch = std::get<plan::Launch>(v.plan.steps[0].what);
  EXPECT_NE(launch.schedule.find(report.kernels.back().schedule), std::string::npos);
}

}  // namespace
}  // namespace reprise::app
