// State of one run of a RunContext; shared by its two sources only.
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
  Clock::time_point start = Clock::now();  // of the run, or of the host work since the last wait
  double copy_us = 0;                      // staging copies since `start`
  struct BufferState {
    std::optional<HostTensor> host;
    bool placed = false;  // a late buffer that has its place
  };
  IdVector<plan::BufferId, BufferState> buffers;  // empty for plans of launches only
};

/// Adds the time of its scope to the run's staging copies.
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
