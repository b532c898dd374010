// The Vulkan backend's entry points.
#pragma once

#include <functional>
#include <memory>

#include "runtime/device/backend.h"

struct VolkDeviceTable;

namespace reprise::vulkan {

struct Driver;
struct InstanceTable;

/// Called once, before the first use of a device. Tests replace functions of the tables, to count
/// calls, to make them fail and to pretend, and change the kind and the memory of the driver.
using TableHook = std::function<void(VolkDeviceTable&)>;
using DriverHook = std::function<void(Driver&)>;
using InstanceHook = std::function<void(InstanceTable&)>;

Result<std::unique_ptr<Device>> open(size_t index, const BackendOptions& options,
                                     const TableHook& hook = {}, const DriverHook& driver_hook = {},
                                     const InstanceHook& instance_hook = {});
/// Sets the features of `v` to those that its physical device has and this backend uses.
Status set_wanted_features(BorrowedVulkan& v);
/// The backend for the registry. It is created by the first call and holds no Vulkan object.
Backend& backend();

}  // namespace reprise::vulkan
