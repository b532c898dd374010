// Correctness first, then rounds in which all who are correct take turns.
#pragma once

#include <string>
#include <vector>

#include "bench/gpu/contender.h"

namespace reprise::bench::gpu {

struct Measured {
  std::string name;
  std::string status = "ok";  // ok, wrong, failed, skipped
  std::string reason;
  double wall_ms = -1, best_ms = -1;  // median and least of whole runs
  double device_ms = -1;              // median; -1: not known
  double submit_us = -1;
  double error = -1;  // largest, as a fraction of the largest expected value
  int64_t launches = -1;
  int runs = 0;
};

struct MeasureOptions {
  int runs = 50;
  double seconds = 3;  // of a case's rounds
};

/// Memory that one contender needs for inputs, outputs and constants.
uint64_t bytes_needed(const Case& c);

/// Never fails: what went wrong is in the rows, in the entries' order. `memory` is the device's.
std::vector<Measured> measure(const Case& c, const Tensors& values,
                              const std::vector<Entry>& entries, uint64_t memory,
                              const MeasureOptions& options);

}  // namespace reprise::bench::gpu
