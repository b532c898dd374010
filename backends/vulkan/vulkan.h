// The Vulkan backend's entry points.
#pragma once

#include <functional>
#include <memory>

#include "runtime/backend.h"

struct VolkDeviceTable;

namespace reprise::vulkan {

struct Driver;

/// Called once, before the first use of a device. Tests replace functions of the table, to count
/// calls and to make them fail, and change the kind and the memory of the driver.
using TableHook = std::function<void(VolkDeviceTable&)>;
using DriverHook = std::function<void(Driver&)>;

Result<std::unique_ptr<Device>> open(size_t index, const BackendOptions& options,
                                     const TableHook& hook = {},
                                     const DriverHook& driver_hook = {});
/// The backend for the registry. It is created by the first call and holds no Vulkan object.
Backend& backend();

}  // namespace reprise::vulkan
