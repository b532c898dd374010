// The CUDA backend's entry points.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/backend.h"

namespace reprise::cuda {

struct Table;

/// Called once, before the first use of a library. Tests replace functions of the table, to count
/// calls and to make them fail.
using TableHook = std::function<void(Table&)>;

/// The name of the driver's library.
#if defined(_WIN32)
inline constexpr const char* kDriverLibrary = "nvcuda.dll";
#else
inline constexpr const char* kDriverLibrary = "libcuda.so.1";
#endif

/// Every device with its facts, or one entry that says why there is none.
std::vector<DeviceInfo> devices(const std::string& library = kDriverLibrary,
                                const TableHook& hook = {});
Result<std::unique_ptr<Device>> open(size_t index, const BackendOptions& options,
                                     const std::string& library = kDriverLibrary,
                                     const TableHook& hook = {});
/// The backend for the registry. It is created by the first call and holds no CUDA object.
Backend& backend();

}  // namespace reprise::cuda
