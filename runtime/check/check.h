// Runs the probes of a variant's kernels on a device and compares the results with those in the
// package.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/backend.h"
#include "runtime/package/package.h"

namespace reprise {

enum class KernelVerdict : uint8_t {
  Pass,
  Wrong,   // a result differs from the interpreter's, or the kernel reported an error
  Varies,  // replays of one recording give different bits
  Error,   // a driver call failed
  Skipped  // the kernel has no probe
};
/// "pass", "wrong", "varies", "error", "skipped".
std::string_view name_of(KernelVerdict v);
inline bool is_wrong(KernelVerdict v) {
  return v == KernelVerdict::Wrong || v == KernelVerdict::Varies;
}

struct KernelCheck {
  std::string kernel;
  KernelVerdict verdict = KernelVerdict::Skipped;
  double max_error = 0;  // largest error of a sample
  std::string reason;    // what was expected and what was found; empty for Pass
};

struct CheckOptions {
  unsigned runs = 3;  // of each kernel, at least 1
  /// Fast kernels run more often: until their runs have taken this long, but at most 12 times.
  uint64_t more_runs_ns = 0;
  bool stop_at_failure = false;  // check no further kernel after one that does not pass
  uint64_t timeout_ns = 0;       // of one run; 0: default_timeout_ns()
};

/// The default time limit of a run: a minute, or ten minutes on CPU-type devices, whose drivers
/// compile a kernel when it is first launched.
uint64_t default_timeout_ns(DeviceKind kind);

/// Returns one result for each kernel of the variant, in order. `kernels` are the variant's kernels
/// on the device. Fails if there is no memory for a probe.
Result<std::vector<KernelCheck>> check_kernels(
    Device& device, const package::CompiledPlan& variant,
    std::span<const std::unique_ptr<DeviceKernel>> kernels, const CheckOptions& options = {});

}  // namespace reprise
