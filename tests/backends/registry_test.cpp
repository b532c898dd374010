// Which device a choice opens, if others are better but cannot be opened.
#include <gtest/gtest.h>

#include "backends/registry.h"

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

}  // namespace
}  // namespace reprise::test
