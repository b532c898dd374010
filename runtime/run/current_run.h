// The run that a context executes: its bindings, its clock, and what it measures.
#pragma once

#include <algorithm>
#include <vector>

#include "runtime/base/timing.h"
#include "runtime/host_plan/host_program.h"
#include "runtime/run/binding.h"
#include "runtime/run/session_io.h"

namespace reprise {

/// What is left of the time limit of a run, and whether it shall end early. All of its bodies share
/// this.
struct TimeLeft {
  uint64_t device_ns = 0, host_ns = 0;
  uint64_t waited_ns = 0;  // how long the host has waited for the device
  const CancelFlag* cancelled = nullptr;

  void spend_host(uint64_t ns) { host_ns -= std::min(host_ns, ns); }
};

struct CurrentRun {
  const BoundIo& io;
  std::vector<int64_t>& symbols;
  RunStats stats;
  Clock::time_point start = Clock::now();  // of the run, or end of the last wait
  Clock::time_point entered = start;       // when the caller entered the session
  double copy_us = 0;                      // time of staging copies since `start`
  TimeLeft& left;
  host::RandomState random = {};  // of the calls of host kernels
  /// Times of launches by body of the variant: the sums over its calls. Only with timestamps.
  std::vector<std::vector<double>> body_us = {};
  size_t segment = 0;                // that is being executed
  const SubmitSync* sync = nullptr;  // of the submission that comes next
};

/// Adds the time of its scope to CurrentRun::copy_us.
class CopyTimer {
 public:
  explicit CopyTimer(CurrentRun& run) : run_(run) {}
  ~CopyTimer() { run_.copy_us += us_since(start_); }
  CopyTimer(const CopyTimer&) = delete;
  CopyTimer& operator=(const CopyTimer&) = delete;

 private:
  CurrentRun& run_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace reprise
