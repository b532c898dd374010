// Checks the results of all contenders, then measures the correct ones in rounds in which they take
// turns.
#pragma once

#include <string>
#include <vector>

#include "bench/gpu/contender.h"

namespace reprise::bench::gpu {

struct Measured {
  std::string name;
  std::string status = "ok";  // ok, wrong, failed, skipped
  std::string reason;
  double wall_ms = -1, best_ms = -1;  // median and minimum of whole runs
  double device_ms = -1;              // median; -1: not known
  double submit_us = -1;
  double error = -1;  // the largest error, as a fraction of the largest expected value
  int64_t launches = -1;
  int runs = 0;
};

struct MeasureOptions {
  int runs = 50;
  double seconds = 3;  // for all rounds of a case
};

/// The bytes that one contender needs for inputs, outputs and constants.
uint64_t bytes_needed(const Case& c);

/// Returns one row per entry, in order. Never fails: the rows have the errors. `memory` is the
/// memory of the device in bytes.
std::vector<Measured> measure(const Case& c, const Tensors& values,
                              const std::vector<Entry>& entries, uint64_t memory,
                              const MeasureOptions& options);

}  // namespace reprise::bench::gpu
