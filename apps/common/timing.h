// The clock that programs measure with, and what they report of many measurements.
#pragma once

#include <vector>

namespace reprise::app {

/// Milliseconds since an arbitrary point.
double now_ms();

/// The value below which a part `p` (0 to 1) of the values lies, interpolated; -1 for none.
double percentile(std::vector<double> values, double p);
inline double median(std::vector<double> values) {
  return percentile(std::move(values), 0.5);
}

}  // namespace reprise::app
