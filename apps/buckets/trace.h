// Recorded sizes of runs, such as the lengths of requests, as a histogram.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace reprise::app {

struct SizeCount {
  int64_t size = 0;  // at least 1
  int64_t runs = 0;  // at least 1
};

/// Sorted by size; each size occurs once.
using Trace = std::vector<SizeCount>;

/// Reads CSV: one run per line, or, if a column is named "count" or "runs", as many as that says.
/// `column` names the column of sizes, or gives its number, which counts from 1. If it is empty,
/// the column is the one named "size" or else the only column of whole numbers. The first line is a
/// header if its field in that column is not a number. Empty lines are skipped. Errors name `file`
/// and the line.
Result<Trace> parse_trace(std::string_view text, const std::string& column,
                          const std::string& file);

}  // namespace reprise::app
