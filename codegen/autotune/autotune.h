// Measured choice of schedules: every candidate's result is compared with the reference before its
// time counts. Choices are kept per device and driver.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/compile_options.h"
#include "codegen/compile_report.h"
#include "runtime/backend.h"

namespace reprise {

/// A candidate's time in one trial; rejected ones had a wrong result, or none.
struct CandidateTime {
  std::string schedule;
  double us = 0;
  bool rejected = false;
  std::string reason = {};  // of a rejection
};

/// What was chosen for kernels of one key, and the runners-up.
struct TunedKernel {
  std::string key, kernel, schedule;
  bool from_cache = false;
  std::vector<CandidateTime> candidates;  // fastest first; rejected ones last
};

struct AutotuneReport {
  std::vector<TunedKernel> kernels;
  int runs = 0;           // of the model, measured; 0 where the cache knew everything
  double default_us = 0;  // device time of a run by the default schedules, and
  double tuned_us = 0;    // by those chosen; 0 where they are the same or known from the cache
};

/// What tuning is given beside the model. It runs the model in this process. A program that tunes
/// in a process of its own hands the package over as a file.
struct AutotuneOptions {
  double budget_s = 30;  // after this time no candidate is begun, and no round beyond the third
  size_t candidates = 6;
  int rounds = 5;
  std::string cache_dir;                             // empty: nothing is kept
  std::function<void(const std::string&)> progress;  // a line for people
  std::function<void(const std::string&)> warning;   // a cache that cannot be used
  /// What to measure with, in the order of the package's interface.
  std::function<Result<std::vector<HostTensor>>(const package::Package&)> inputs;
  /// Opens the device again, after a candidate's fault made it unusable; unset: that is an error.
  std::function<Result<std::shared_ptr<Device>>()> reopen;
  /// Called with each candidate's package before it runs: where tests plant faults.
  std::function<void(size_t candidate, package::Package&)> on_candidate;
};

struct TunedPackage {
  std::shared_ptr<const package::Package> package;
  CompileReport report;
};

/// Compiles an ONNX model with the schedules that are fastest on the device. All together must be
/// right, and no slower than the default ones, or they are not taken; where the default ones are
/// not right either that is an error, and nothing is kept. A candidate may take the
/// device down with it: then it is rejected, and `device` is another that was opened in its place,
/// so no one else may hold objects of the one that was given.
Result<TunedPackage> autotune(const std::string& path, const CompileOptions& compile,
                              std::shared_ptr<Device>& device, const AutotuneOptions& options,
                              AutotuneReport* report = nullptr);

/// Orders candidates, the default one first as given, and returns the schedule to use: the fastest
/// that was not rejected and is faster than the default beyond doubt, else the default.
std::string select(std::vector<CandidateTime>& candidates);

}  // namespace reprise
