// Which device a choice opens, if others are better but cannot be opened.
#include <gtest/gtest.h>

#include "backends/registry.h"

namespace reprise::test {
namespace {

/// A backend with one GPU, which cannot be opened.
class FullGpu final : public Backend {
 public:
  std::string_view name() const override { return "full"; }
  std::vector<DeviceInfo> devices() override {
    DeviceInfo info;
    info.id = "full:0";
    info.name = "a GPU";
    info.usable = true;
    info.facts.api = Api::Cuda;  // preferred to all others
    return {info};
  }
  Result<std::unique_ptr<Device>> open(size_t, const BackendOptions&) override {
    ++opened;
    return Status(Code::OutOfMemory, "its memory is exhausted");
  }

  int opened = 0;
};

/// A machine without devices of this kind.
class NoGpu final : public Backend {
 public:
  std::string_view name() const override { return "none"; }
  std::vector<DeviceInfo> devices() override {
    DeviceInfo info;
    info.id = "none";
    info.reason = "no driver";
    return {info};
  }
  Result<std::unique_ptr<Device>> open(size_t, const BackendOptions&) override {
    return Status(Code::Device, "no driver");
  }
};

TEST(OpenBest, TheErrorHasAllReasonsAndTheFirstCode) {
  FullGpu full;
  NoGpu none;
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

TEST(OpenBest, ARefusedDeviceIsNotOpened) {
  FullGpu full;
  Backend* const all[] = {&full};
  const auto opened = open_best(all, {}, [](const DeviceInfo&) { return "the model needs more"; });
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().message(), "no usable device: full:0: the model needs more");
  EXPECT_EQ(full.opened, 0);
}

TEST(OpenBest, TheNextDeviceIsTriedWhenOneCannotBeOpened) {
  if (list_devices().size() < 2 || !open_best(backends()).ok()) GTEST_SKIP() << "no device";
  FullGpu full;
  NoGpu none;
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

}  // namespace
}  // namespace reprise::test
