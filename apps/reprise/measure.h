// Speed and error of one model on one device, as bench and compare report it.
#pragma once

#include <string>

#include "apps/common/compare.h"
#include "apps/reprise/command.h"

namespace reprise::app {

struct MeasureOptions {
  int runs = 30;
  int warmup = 2;
  double max_seconds = 10;   // stops earlier than `runs` once this has passed (after 3 runs)
  bool reference = true;     // compare with the host
  bool device_times = true;  // a second session with timestamps
  bool launches = false;     // a table of them
};
void add_measure(CLI::App& command, MeasureOptions& options);

/// One launch of a run: its kernel, the model's nodes in it, its device time.
struct LaunchTime {
  std::string kernel, schedule;
  std::vector<std::string> nodes;
  double us = 0;        // median
  double first_us = 0;  // of the first run, in which some drivers compile the kernel
};

struct Measurement {
  std::string model, device, mode;
  int64_t kernels = 0, dispatches = 0, host_calls = 0;
  double compile_ms = 0, load_ms = 0, first_run_ms = 0;
  double median_ms = 0, p10_ms = 0, p90_ms = 0;
  double device_ms = -1;             // -1: not measured
  std::vector<LaunchTime> launches;  // in plan order; with device times
  double host_submit_us = 0;
  double max_error = -1, max_relative = -1;  // -1: not compared
  bool ok = true;                            // within the model tolerance
  std::string reason;                        // of !ok
  uint64_t device_bytes = 0;
  int runs = 0;
};

Result<Measurement> measure(const Model& model, const OpenedDevice& device, const InputSet& inputs,
                            const CommonOptions& common, const MeasureOptions& options,
                            const std::vector<HostTensor>* expected);
/// The host reference's outputs.
Result<std::vector<HostTensor>> reference_outputs(const Model& model, const InputSet& inputs,
                                                  const CommonOptions& options);

Json measurement_json(const Measurement& m);
Table measurement_table();
void add_row(Table& table, const Measurement& m);
/// Launches of a measurement, slowest first.
Table launch_table(const Measurement& m);

/// Largest errors over all outputs; the reason names the first output that differs.
Comparison compare_outputs(const Model& model, const std::vector<HostTensor>& actual,
                           const std::vector<HostTensor>& expected);

}  // namespace reprise::app
