// An application rehearses the loss of its device: the run fails with the right status, and so does
// everything after it, until the device is opened again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "reprise/compiler.h"
#include "reprise/reprise.h"
#include "tests/probes/layer.h"
#include "tests/support/paths.h"

namespace reprise::test {
namespace {

class LostDevice : public testing::Test {
 protected:
  void SetUp() override {
    const std::string model = onnx_suite_dir() / "node/test_sigmoid/model.onnx";
    ASSERT_EQ(reprise_compile_file(model.c_str(), nullptr, &package_, &error_), REPRISE_OK)
        << error_.message;
  }
  void TearDown() override {
    reprise_session_free(session_);
    reprise_device_free(device_);
    reprise_package_free(package_);
  }
  void open(const char* id) {
    reprise_device_free(device_);
    device_ = nullptr;
    ASSERT_EQ(reprise_device_open(id, nullptr, &device_, &error_), REPRISE_OK) << error_.message;
  }
  reprise_status run() {
    reprise_tensor x = REPRISE_TENSOR_INIT, y = REPRISE_TENSOR_INIT;
    x.name = "x";
    x.rank = 3;
    x.dims[0] = 3;
    x.dims[1] = 4;
    x.dims[2] = 5;
    x.data = x_.data();
    y.name = "y";
    y.data = y_.data();
    x.bytes = y.bytes = x_.size() * sizeof(float);
    return reprise_session_run(session_, &x, 1, &y, 1, nullptr, nullptr, &error_);
  }

  reprise_package* package_ = nullptr;
  reprise_device* device_ = nullptr;
  reprise_session* session_ = nullptr;
  reprise_error error_{};
  std::vector<float> x_ = std::vector<float>(60, 1.0F), y_ = x_;
};

TEST_F(LostDevice, IsReportedUntilItIsOpenedAgain) {
  size_t count = 0;
  std::vector<reprise_device_info> devices(16, REPRISE_DEVICE_INFO_INIT);
  ASSERT_EQ(reprise_list_devices(devices.data(), devices.size(), &count, &error_), REPRISE_OK);
  devices.resize(std::min(count, devices.size()));
  int tried = 0;
  for (const reprise_device_info& d : devices) {
    if (d.usable == 0 || std::string(d.id).rfind("vulkan:", 0) != 0) continue;
    ++tried;
    ASSERT_NO_FATAL_FAILURE(open(d.id));
    reprise_session_free(session_);
    session_ = nullptr;
    ASSERT_EQ(reprise_session_create(package_, device_, nullptr, &session_, &error_), REPRISE_OK)
        << error_.message;
    const Faults faults("lost:3");
    int lost = 0;
    for (int i = 0; i < 9; ++i) {
      std::ranges::fill(y_, -1.0F);
      if (run() == REPRISE_OK) {
        for (const float y : y_) ASSERT_NEAR(y, 1 / (1 + std::exp(-1.0F)), 1e-5F);
        continue;
      }
      ++lost;
      EXPECT_EQ(error_.status, REPRISE_DEVICE_LOST) << error_.message;
      EXPECT_EQ(run(), REPRISE_DEVICE_LOST) << error_.message;
      ASSERT_NO_FATAL_FAILURE(open(d.id));
      ASSERT_EQ(reprise_session_reopen(session_, device_, &error_), REPRISE_OK) << error_.message;
    }
    EXPECT_GE(lost, 2) << d.id;
    EXPECT_GE(faults.count(), 2U);
  }
  EXPECT_GT(tried, 0);
}

}  // namespace
}  // namespace reprise::test
