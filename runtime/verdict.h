// Decides whether a device may run a variant: its driver has to execute each kernel as the package
// says. The answer is kept in a file for the next session.
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
};

struct Verdict {
  bool right = true;
  std::string reason;  // which kernel is wrong, and how; where that was known, from which file
};

/// Runs the probes of a variant, unless a file has the answer. `code` is that of the variant's
/// kernels, from which `kernels` were created on the device. A kernel whose run fails is wrong, but
/// that is not kept. An error if there is no memory for a probe. A variant without probes is right.
Result<Verdict> judge(Device& device, const package::Variant& variant,
                      std::span<const plan::KernelCode> code,
                      std::span<const std::unique_ptr<DeviceKernel>> kernels,
                      const VerdictOptions& options);

}  // namespace reprise
