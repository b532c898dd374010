// Measures the speed and the error of one model on one device, for bench and compare.
#pragma once

#include <string>

#include "apps/common/compare.h"
#include "apps/reprise/command.h"

namespace reprise::app {

struct MeasureOptions {
  int runs = 30;
  int warmup = 2;
  double max_seconds = 10;   // no run starts after this time, but at least 3 runs are made
  bool reference = true;     // compare with the host
  bool device_times = true;  // measure device times in a second session with timestamps
  bool launches = false;     // print a table of launches
};
void add_measure(CLI::App& command, MeasureOptions& options);

/// One launch of a run: its kernel, the model's nodes that it computes, and its device time.
struct LaunchTime {
  std::string kernel, schedule;
  std::string body;  // that it belongs to; empty for the model's own plan
  std::vector<std::string> nodes;
  double us = 0;        // median, of all calls of the body in a run
  double first_us = 0;  // in the first run, in which some drivers compile the kernel
};

struct Measurement {
  std::string model, device, mode;
  int64_t kernels = 0, dispatches = 0, host_calls = 0;
  double compile_ms = 0, load_ms = 0, first_run_ms = 0;
  double median_ms = 0, p10_ms = 0, p90_ms = 0;
  double device_ms = -1;             // the sum of kernel times; -1: not measured
  double timed_run_ms = -1;          // a whole run in which they were measured; -1: not measured
  std::vector<LaunchTime> launches;  // in plan order; empty without device times
  double host_submit_us = 0;
  double longest_slice_us = 0;  // median of the longest submissions of runs; only with slices
  double max_error = -1, max_relative = -1;  // -1: not compared
  bool ok = true;                            // within the tolerance of the model
  std::string reason;                        // if not ok
  uint64_t device_bytes = 0;
  uint32_t plan = 0;  // RunStats::plan
  int runs = 0;
};

Result<Measurement> measure(const Model& model, const OpenedDevice& device, const InputSet& inputs,
                            const CommonOptions& common, const MeasureOptions& options,
                            const std::vector<HostTensor>* expected);
/// The outputs of the host reference.
Result<std::vector<HostTensor>> reference_outputs(const Model& model, const InputSet& inputs,
                                                  const CommonOptions& options);

Json measurement_json(const Measurement& m);
Table measurement_table();
void add_row(Table& table, const Measurement& m);
/// The launches of a measurement, slowest first.
Table launch_table(const Measurement& m);

/// The largest errors over all outputs. The reason names the first output that differs.
Comparison compare_outputs(const Model& model, const std::vector<HostTensor>& actual,
                           const std::vector<HostTensor>& expected);

}  // namespace reprise::app
