// Chooses schedules by measurement. Every candidate's result is compared with the reference before
// its time counts. Choices are cached per device and driver.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/compile/compile_model.h"
#include "codegen/options/compile_options.h"
#include "codegen/options/compile_report.h"
#include "runtime/device/backend.h"

namespace reprise {

/// A candidate and its time. A rejected candidate had a wrong result, or none.
struct CandidateTime {
  std::string schedule;
  double us = 0;
  bool rejected = false;
  std::string reason = {};  // why it was rejected
};

/// The choice for kernels with one key, and the runners-up.
struct TunedKernel {
  std::string key, kernel, schedule;
  bool from_cache = false;
  std::vector<CandidateTime> candidates;  // fastest first; rejected ones last
};

struct AutotuneReport {
  std::vector<TunedKernel> kernels;
  int runs = 0;           // measured runs of the model; 0 if the cache had all choices
  double default_us = 0;  // device time of a run with the default schedules
  double tuned_us = 0;    // with the chosen schedules
  // Both times are 0 if the schedules are the same or all choices are from the cache.
  bool amplifies = false;  // the model amplifies rounding, so nothing could be chosen
};

/// Options of tuning, which runs the model in this process. A program that tunes in a separate
/// process passes the package on as a file.
struct AutotuneOptions {
  double budget_s = 30;  // after this time, no candidate and no round after the third begins
  size_t candidates = 6;
  int rounds = 5;
  std::string cache_dir;                             // empty: there is no cache
  std::function<void(const std::string&)> progress;  // a line for people
  std::function<void(const std::string&)> warning;   // such as a cache that cannot be used
  /// Returns the inputs to measure with, in the order of the package's interface.
  std::function<Result<std::vector<HostTensor>>(const package::Package&)> inputs;
  /// Opens the device again after a candidate's fault made it unusable. If not set, such a fault is
  /// an error.
  std::function<Result<std::shared_ptr<Device>>()> reopen;
  /// Called with each candidate's package before it runs. Tests inject faults with this.
  std::function<void(size_t candidate, package::Package&)> on_candidate;
};

struct TunedPackage {
  std::shared_ptr<const package::Package> package;
  CompileReport report;
};

/// Compiles an ONNX model with the schedules that are fastest on the device. The chosen schedules
/// are used only if the model with all of them is right, and no slower than with the default ones.
/// If the default ones are wrong as well, nothing is cached: that is an error, except if each
/// kernel by itself is right. The model then amplifies rounding, and gets the default ones. A
/// candidate that makes the device unusable is rejected, and `device` is then replaced by a newly
/// opened one, so nothing else may hold objects of the original device.
Result<TunedPackage> autotune(const CompileModel& model, const CompileOptions& compile,
                              std::shared_ptr<Device>& device, const AutotuneOptions& options,
                              AutotuneReport* report = nullptr);
/// The same for a model in a file.
Result<TunedPackage> autotune(const std::string& path, const CompileOptions& compile,
                              std::shared_ptr<Device>& device, const AutotuneOptions& options,
                              AutotuneReport* report = nullptr);

/// Sorts the candidates, of which the first must be the default, and returns the schedule to use:
/// the fastest that was not rejected if it is clearly faster than the default, else the default.
std::string select(std::vector<CandidateTime>& candidates);

}  // namespace reprise
