// Runs the probes of a variant's kernels on a device and compares the results with those in the
// package.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/backend.h"
#include "runtime/package/package.h"

namespace reprise {

enum class KernelVerdict : uint8_t {
  Pass,
  Wrong,   // a result is not what the interpreter gave, or the kernel reported an error
  Varies,  // replays of one recording give different bits
  Error,   // a driver call failed
  Skipped  // it has no probe
};
/// "pass", "wrong", "varies", "error", "skipped".
std::string_view name_of(KernelVerdict v);
inline bool is_wrong(KernelVerdict v) {
  return v == KernelVerdict::Wrong || v == KernelVerdict::Varies;
}

struct KernelCheck {
  std::string kernel;
  KernelVerdict verdict = KernelVerdict::Skipped;
  double max_error = 0;  // of the samples, against what they must be
  std::string reason;    // what was expected and found; empty for Pass
};

struct CheckOptions {
  unsigned runs = 3;  // of each kernel, at least 1
  /// Kernels that are fast run more often, up to 12 times, until they have taken so long.
  uint64_t more_runs_ns = 0;
  bool stop_at_failure = false;  // no kernel is checked after one that does not pass
  uint64_t timeout_ns = 0;       // of one run; 0: default_timeout_ns
};

/// The time limit of a run that has none: a minute, on CPU-type devices ten, whose drivers compile
/// kernels when they are launched first.
uint64_t default_timeout_ns(const DeviceInfo& device);

/// One result for each kernel of the variant, in order. `kernels` were created from it, on the
/// device. An error if there is no memory for a probe.
Result<std::vector<KernelCheck>> check_kernels(
    Device& device, const package::Variant& variant,
    std::span<const std::unique_ptr<DeviceKernel>> kernels, const CheckOptions& options = {});

}  // namespace reprise
