// The Vulkan backend's entry points.
#pragma once

#include <functional>
#include <memory>

#include "runtime/backend.h"

struct VolkDeviceTable;

namespace reprise::vulkan {

struct Driver;

/// Called once, before a device's first use. Tests count calls of the function table and make them
/// fail, or give the driver another kind and other memory than it has.
using TableHook = std::function<void(VolkDeviceTable&)>;
using DriverHook = std::function<void(Driver&)>;

Result<std::unique_ptr<Device>> open(size_t index, const BackendOptions& options,
                                     const TableHook& hook = {},
                                     const DriverHook& driver_hook = {});
/// The backend of the registry; made at the first call, holds no Vulkan object.
Backend& backend();

}  // namespace reprise::vulkan
