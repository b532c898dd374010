// Decides whether a device may run a variant, by checking that the driver executes each kernel as
// the package says. A file keeps the verdict for the next session.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "runtime/device/backend.h"
#include "runtime/package/package.h"

namespace reprise {

struct VerdictOptions {
  std::string cache_dir;  // folder that keeps verdicts; empty: none are kept
  Log log;                // reports files that cannot be used or written
};

struct Verdict {
  bool right = true;
  std::string reason;  // which kernel is wrong and how, and the file if the verdict came from one
};

/// Runs the probes of a variant, unless a file has the verdict. `code` is the code of the variant's
/// kernels, and `kernels` were created from it on the device. A kernel whose run fails is wrong,
/// but no file keeps such a verdict. A variant without probes is right. Fails if there is no memory
/// for a probe.
Result<Verdict> judge(Device& device, const package::CompiledPlan& variant,
                      std::span<const plan::KernelCode> code,
                      std::span<const std::unique_ptr<DeviceKernel>> kernels,
                      const VerdictOptions& options);

}  // namespace reprise
