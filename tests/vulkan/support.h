// Tests that run once per Vulkan device.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "backends/registry.h"
#include "backends/vulkan/vulkan.h"
#include "runtime/session/session.h"
#include "tests/support/plans.h"

namespace reprise::test {

/// A test that runs once per usable Vulkan device, with validation where the environment variable
/// REPRISE_TEST_VALIDATION asks for it; any message fails it.
class OnDevice : public testing::TestWithParam<std::string> {
 protected:
  std::shared_ptr<Device> open(const vulkan::TableHook& hook = {}, BackendOptions options = {});
  std::unique_ptr<Session> session(std::shared_ptr<const package::Package> package,
                                   std::shared_ptr<Device> device,
                                   const SessionOptions& options = {});
  std::vector<std::string> messages();
  void TearDown() override;
  bool expect_messages_ = false;
  vulkan::DriverHook driver_hook_;
  vulkan::InstanceHook instance_hook_;

 private:
  std::mutex mutex_;
  std::vector<std::string> messages_;
};

/// Ids of the usable Vulkan devices.
std::vector<std::string> device_ids();

#define REPRISE_ON_DEVICES(suite)                                                            \
  INSTANTIATE_TEST_SUITE_P(Devices, suite, testing::ValuesIn(::reprise::test::device_ids()), \
                           ::reprise::test::id_as_name)

}  // namespace reprise::test
