// Sessions of a package on the host and on every Vulkan device.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "backends/registry.h"
#include "runtime/session/session.h"

namespace reprise {

/// Calls f with a session on each device, and on the host.
inline void on_each_device(const std::shared_ptr<const package::Package>& package,
                           const std::function<void(Session&)>& f) {
  ASSERT_TRUE(package);
  const auto with = [&](const std::shared_ptr<Device>& device) {
    auto session = Session::create(package, device);
    ASSERT_TRUE(session.ok()) << session.status().message();
    f(**session);
  };
  with(nullptr);
  for (const DeviceInfo& info : list_devices()) {
    if (!info.usable || info.facts.api != Api::Vulkan) continue;
    SCOPED_TRACE(info.id);
    auto device = open_device(info.id);
    ASSERT_TRUE(device.ok()) << device.status().message();
    with(device->device);
  }
}

}  // namespace reprise
