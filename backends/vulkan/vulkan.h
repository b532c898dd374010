// The Vulkan backend's entry points.
#pragma once

#include <functional>
#include <memory>

#include "runtime/backend.h"

struct VolkDeviceTable;

namespace reprise::vulkan {

/// Called once with a device's function table, before its first use: tests count calls and make
/// them fail.
using TableHook = std::function<void(VolkDeviceTable&)>;

Result<std::unique_ptr<Device>> open(size_t index, const BackendOptions& options,
                                     const TableHook& hook = {});
/// The backend of the registry; made at the first call, holds no Vulkan object.
Backend& backend();

}  // namespace reprise::vulkan
