// The state of one run of a RunContext; shared by its two source files only.
#pragma once

#include <optional>
#include <vector>

#include "runtime/base/timing.h"
#include "runtime/run_context.h"

namespace reprise {

struct RunContext::Run {
  const BoundIo& io;
  std::vector<int64_t>& symbols;
  RunStats stats;
  Clock::time_point start = Clock::now();  // of the run, or end of the last wait
  double copy_us = 0;                      // time of staging copies since `start`
  uint64_t host_ns_left = 0;               // of the time limit, for calls of host kernels
  uint64_t number = 0;                     // of the run in its session
  struct BufferState {
    std::optional<HostTensor> host;
    bool placed = false;  // a late buffer has its memory
  };
  IdVector<plan::BufferId, BufferState> buffers;  // empty if the plan has only launches
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
