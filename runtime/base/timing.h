// The clock of reports and measurements, and statistics of measurements.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

namespace reprise {

using Clock = std::chrono::steady_clock;

inline double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}
inline double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}
inline uint64_t ns_since(Clock::time_point start) {
  return static_cast<uint64_t>(std::chrono::nanoseconds(Clock::now() - start).count());
}
/// Set by any thread when a run shall end early.
using CancelFlag = std::atomic<bool>;

/// The time at which work on the host has to end.
using Deadline = Clock::time_point;

/// The time in `ns` nanoseconds, or the last possible one.
inline Deadline deadline_in(uint64_t ns) {
  const Clock::time_point now = Clock::now();
  const auto left = static_cast<uint64_t>(std::chrono::nanoseconds(Deadline::max() - now).count());
  return ns < left ? now + std::chrono::nanoseconds(ns) : Deadline::max();
}

/// Milliseconds since an arbitrary point in time.
double now_ms();

/// The value below which the fraction `p` (0 to 1) of the values lies, interpolated; -1 if there
/// are no values.
double percentile(std::vector<double> values, double p);
inline double median(std::vector<double> values) {
  return percentile(std::move(values), 0.5);
}

}  // namespace reprise
