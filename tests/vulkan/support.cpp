#include "support.h"

namespace reprise::test {

std::shared_ptr<Device> OnDevice::open(const vulkan::TableHook& hook, BackendOptions options) {
  options.validation = std::getenv("REPRISE_TEST_VALIDATION") != nullptr;
  options.log = [this](Severity, const std::string& m) {
    const std::lock_guard lock(mutex_);
    messages_.push_back(m);
  };
  const std::string id = GetParam();
  auto device = vulkan::open(std::stoul(id.substr(id.find(':') + 1)), options, hook, driver_hook_,
                             instance_hook_);
  EXPECT_TRUE(device.ok()) << device.status().message();
  return device.ok() ? std::shared_ptr<Device>(std::move(*device)) : nullptr;
}

std::unique_ptr<Session> OnDevice::session(std::shared_ptr<const package::Package> package,
                                           std::shared_ptr<Device> device,
                                           const SessionOptions& options) {
  auto s = Session::create(std::move(package), std::move(device), options);
  EXPECT_TRUE(s.ok()) << s.status().message();
  return s.ok() ? std::move(*s) : nullptr;
}

std::vector<std::string> OnDevice::messages() {
  const std::lock_guard lock(mutex_);
  return messages_;
}

void OnDevice::TearDown() {
  if (expect_messages_) return;
  for (const std::string& m : messages()) ADD_FAILURE() << m;
}

std::vector<std::string> device_ids() {
  std::vector<std::string> ids;
  for (const DeviceInfo& d : vulkan::backend().devices({}))
    if (d.usable) ids.push_back(d.id);
  return ids;
}

}  // namespace reprise::test
