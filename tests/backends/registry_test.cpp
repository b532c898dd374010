// Which device a choice opens, if others are better but cannot be opened.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <vector>

#include "backends/registry.h"
#include "runtime/check/proof.h"

namespace reprise::test {
namespace {

/// A backend with one entry, which cannot be opened.
class Unopenable final : public Backend {
 public:
  Unopenable(const std::string& id, std::string reason, Status failure)
      : failure_(std::move(failure)) {
    info_.id = id;
    info_.usable = reason.empty();
    info_.reason = std::move(reason);
    info_.facts.api = Api::Cuda;  // preferred to all others
  }
  std::string_view name() const override { return "unopenable"; }
  std::vector<DeviceInfo> devices(const HiddenFeatures&) override { return {info_}; }
  Result<std::unique_ptr<Device>> open(size_t, const BackendOptions&) override {
    ++opened;
    return failure_;
  }

  int opened = 0;

 private:
  DeviceInfo info_;
  Status failure_;
};

class OpenBest : public testing::Test {
 protected:
  Unopenable full{"full:0", "", {Code::OutOfMemory, "its memory is exhausted"}};
  Unopenable none{"none", "no driver", {Code::Device, "no driver"}};  // a machine without devices
};

TEST_F(OpenBest, TheErrorHasAllReasonsAndTheFirstCode) {
  Backend* const all[] = {&none, &full};
  const auto opened = open_best(all);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), Code::OutOfMemory);
  EXPECT_EQ(opened.status().message(),
            "no usable device: none: no driver; full:0: its memory is exhausted");
  EXPECT_EQ(full.opened, 1);
  Backend* const absent[] = {&none};
  EXPECT_EQ(open_best(absent).status().code(), Code::Device);
}

TEST_F(OpenBest, ARefusedDeviceIsNotOpened) {
  Backend* const all[] = {&full};
  const auto opened = open_best(all, {}, [](const DeviceInfo&) { return "the model needs more"; });
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().message(), "no usable device: full:0: the model needs more");
  EXPECT_EQ(full.opened, 0);
}

TEST_F(OpenBest, TheNextDeviceIsTriedWhenOneCannotBeOpened) {
  if (!open_best(backends()).ok()) GTEST_SKIP() << "this machine has no device to open";
  std::vector<Backend*> all{&none, &full};
  all.insert(all.end(), backends().begin(), backends().end());
  const auto opened = open_best(all);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(full.opened, 1);
  EXPECT_NE(opened->device, nullptr);
  EXPECT_NE(opened->info.id, "full:0");
  EXPECT_NE(opened->passed_over.find("full:0: its memory is exhausted"), std::string::npos)
      << opened->passed_over;
  EXPECT_EQ(opened->passed_over.find("none"), std::string::npos) << "it has no devices";
}

/// A GPU as two backends see it, and the processor. None can be opened, so that all are tried.
class Preference : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / "reprise-proofs";
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  static DeviceInfo device(const std::string& id, Api api, DeviceKind kind, uint8_t uuid) {
    DeviceInfo d;
    d.id = d.name = id;
    d.usable = true;
    d.facts.api = api;
    d.facts.kind = kind;
    d.uuid[0] = uuid;
    return d;
  }
  /// The order in which devices are tried.
  std::string order() {
    BackendOptions options;
    options.cache_dir = folder_.string();
    std::array<Failing, 4> backends{Failing(cpu), Failing(vulkan), Failing(cuda), Failing(other)};
    std::vector<Backend*> all;
    for (Failing& b : backends) all.push_back(&b);
    return open_best(all, options).status().message();
  }
  void prove(const DeviceInfo& d, bool right) {
    EXPECT_TRUE(keep_proof(folder_.string(), d, right));
    EXPECT_EQ(read_proof(folder_.string(), d), right ? Proof::Right : Proof::Wrong);
  }
  DeviceInfo cuda = device("cuda", Api::Cuda, DeviceKind::DiscreteGpu, 1),
             vulkan = device("vulkan", Api::Vulkan, DeviceKind::DiscreteGpu, 1),
             other = device("other", Api::Vulkan, DeviceKind::IntegratedGpu, 2),
             cpu = device("cpu", Api::Vulkan, DeviceKind::Cpu, 0);

 private:
  class Failing final : public Backend {
   public:
    explicit Failing(DeviceInfo info) : info_(std::move(info)) {}
    std::string_view name() const override { return info_.id; }
    std::vector<DeviceInfo> devices(const HiddenFeatures&) override { return {info_}; }
    Result<std::unique_ptr<Device>> open(size_t, const BackendOptions&) override {
      return Status(Code::Device, "no");
    }

   private:
    DeviceInfo info_;
  };
  std::filesystem::path folder_;
};

TEST_F(Preference, ABackendThatProvedItselfComesBeforeTheOthersOfItsGpu) {
  const std::string by_rank = "no usable device: cuda: no; vulkan: no; other: no; cpu: no";
  EXPECT_EQ(order(), by_rank);
  prove(vulkan, true);
  EXPECT_EQ(order(), "no usable device: vulkan: no; cuda: no; other: no; cpu: no");
  prove(cuda, true);
  EXPECT_EQ(order(), by_rank);
  prove(cpu, true);  // another device, which stays behind
  EXPECT_EQ(order(), by_rank);
}

TEST_F(Preference, ADeviceThatWasWrongComesLastUntilItsDriverChanges) {
  prove(vulkan, false);
  prove(cuda, false);
  EXPECT_EQ(order(), "no usable device: other: no; cpu: no; cuda: no; vulkan: no");
  prove(cuda, true);
  EXPECT_EQ(order(), "no usable device: cuda: no; other: no; cpu: no; vulkan: no");
  vulkan.driver = "a later one";
  EXPECT_EQ(order(), "no usable device: cuda: no; vulkan: no; other: no; cpu: no");
}

}  // namespace
}  // namespace reprise::test
