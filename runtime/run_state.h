// State of one run of a RunContext; shared by its two sources only.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "runtime/run_context.h"

namespace reprise {

using Clock = std::chrono::steady_clock;

inline double us_since(Clock::time_point t) {
  return std::chrono::duration<double, std::micro>(Clock::now() - t).count();
}

struct RunContext::Run {
  const BoundIo& io;
  std::vector<int64_t>& symbols;
  RunStats stats;
  Clock::time_point start = Clock::now();  // of the run, or of the host work since the last wait
  double copy_us = 0;                      // staging copies since `start`
  std::vector<std::optional<HostTensor>> host;  // per plan buffer; empty for plans of launches only
  std::vector<bool> placed;                     // late buffers that have their place; likewise
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
