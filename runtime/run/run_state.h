// The state of one run of a RunContext; shared by its source files only.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/base/timing.h"
#include "runtime/run/run_context.h"

namespace reprise {

/// What is left of the time limit of a run, and whether it shall end early. All of its bodies share
/// this.
struct TimeLeft {
  uint64_t device_ns = 0, host_ns = 0;
  uint64_t waited_ns = 0;  // how long the host has waited for the device
  const CancelFlag* cancelled = nullptr;

  void spend_host(uint64_t ns) { host_ns -= std::min(host_ns, ns); }
};

struct RunContext::Run {
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
  struct BufferState {
    std::optional<HostTensor> host;
    bool placed = false;    // a late buffer has its memory
    bool uploaded = false;  // a staged input was uploaded before the recording that copies it
  };
  IdVector<plan::BufferId, BufferState> buffers;  // empty if the plan has only launches
};

/// The run that a context executes for its session. Later runs reuse the object.
struct RunContext::Ongoing {
  TimeLeft left;
  std::optional<Run> run;
  bool recorded = false;  // in a command buffer of the application
};

/// Adds the time of its scope to Run::copy_us.
template <typename Run>
class CopyTimer {
 public:
  explicit CopyTimer(Run& run) : run_(run) {}
  ~CopyTimer() { run_.copy_us += us_since(start_); }
  CopyTimer(const CopyTimer&) = delete;
  CopyTimer& operator=(const CopyTimer&) = delete;

 private:
  Run& run_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace reprise
