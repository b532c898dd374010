// The clock of reports and measurements, and statistics of measurements.
#pragma once

#include <chrono>
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
/// Milliseconds since an arbitrary point in time.
double now_ms();

/// The value below which the fraction `p` (0 to 1) of the values lies, interpolated; -1 if there
/// are no values.
double percentile(std::vector<double> values, double p);
inline double median(std::vector<double> values) {
  return percentile(std::move(values), 0.5);
}

}  // namespace reprise
