// The CUDA backend's entry points.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/backend.h"

namespace reprise::cuda {

struct Table;

/// Called once, before a library's first use. Tests count calls of the function table and make them
/// fail.
using TableHook = std::function<void(Table&)>;

/// The driver's library, as its installer names it.
inline constexpr const char* kDriverLibrary = "libcuda.so.1";

/// Every device with its facts, or one entry that says why there is none.
std::vector<DeviceInfo> devices(const std::string& library = kDriverLibrary,
                                const TableHook& hook = {});
Result<std::unique_ptr<Device>> open(size_t index, const BackendOptions& options,
                                     const std::string& library = kDriverLibrary,
                                     const TableHook& hook = {});
/// The backend of the registry; made at the first call, holds no CUDA object.
Backend& backend();

}  // namespace reprise::cuda
