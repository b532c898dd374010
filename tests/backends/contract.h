// The backend contract: what sessions and applications rely on, the same for the host, each Vulkan
// device and each CUDA device. A device is excused from a case only in the table of contract.cpp.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/registry.h"
#include "runtime/session/session.h"
#include "tests/support/plans.h"

namespace reprise::test {

/// A test that runs once per device. Vulkan's validation layers watch where the environment
/// variable REPRISE_TEST_VALIDATION asks for it; any message fails the test.
class Contract : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override;
  void TearDown() override;
  /// Null for the host.
  std::shared_ptr<Device> open(BackendOptions options = {});
  bool on_host() const { return GetParam() == "host"; }
  std::unique_ptr<Session> session(std::shared_ptr<const package::Package> package,
                                   std::shared_ptr<Device> device,
                                   const SessionOptions& options = {});

 private:
  std::mutex mutex_;
  std::vector<std::string> messages_;
};

/// A contract of devices alone: the host is excused from all of its cases.
class DeviceContract : public Contract {
 protected:
  void SetUp() override;
  std::shared_ptr<Device> device_;
};

/// Ids of the usable devices, and "host".
std::vector<std::string> contract_devices();

#define REPRISE_ON_ALL_DEVICES(suite)                                                              \
  INSTANTIATE_TEST_SUITE_P(Devices, suite, testing::ValuesIn(::reprise::test::contract_devices()), \
                           ::reprise::test::id_as_name)

}  // namespace reprise::test
