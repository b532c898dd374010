// Whether the kernels of a variant compute on a device what they should: asked once for a device
// and driver, then remembered in a file.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "runtime/backend.h"
#include "runtime/package/package.h"

namespace reprise {

struct VerdictOptions {
  std::string cache_dir;                        // where verdicts are kept; empty: nowhere
  std::function<void(const std::string&)> log;  // of files that cannot be used or written
  uint64_t timeout_ns = 60'000'000'000;         // of one launch
};

/// Empty if no kernel fails, else the first that does, and how. An error if a driver call fails.
/// `kernels` were created from the variant, on the device.
Result<std::string> find_wrong_kernel(Device& device, const package::Variant& variant,
                                      std::span<const std::unique_ptr<DeviceKernel>> kernels,
                                      const VerdictOptions& options);

}  // namespace reprise
