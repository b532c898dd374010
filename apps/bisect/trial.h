// Checks whether a model that was compiled with some options gives the same results as the host.
#pragma once

#include <string>
#include <vector>

#include "apps/bisect/launch_alone.h"
#include "apps/common/devices.h"

namespace reprise::app {

/// A model in memory with inputs and the host's outputs.
struct Sample {
  std::unique_ptr<graph::Graph> model;
  InputSet inputs;
  Values values;  // of all tensors, on the host
  std::vector<HostTensor> expected;
  Slack slack;
};
/// Evaluates the model on the host; `inputs` are in the graph's order.
Result<Sample> make_sample(std::unique_ptr<graph::Graph> model, InputSet inputs);
/// Compares an output. If it differs from `expected`, up to `trials` evaluations on the host decide
/// whether rounding explains that.
Result<Comparison> compare_output(Sample& sample, size_t output, const HostTensor& actual,
                                  const HostTensor& expected, const Tolerance& t, int trials);
/// How far the sample's outputs move if no value is more precise than `least_unit`.
Result<Slack> slack_of(const Sample& sample, double least_unit);

/// How a model is run.
struct Setting {
  CompileOptions compile;
  SessionOptions session;
  OpenedDevice device;
  int runs = 4;              // half of them in a second session; the trial differs if any run does
  int trials = Slack::kFew;  // of rounding that may explain a difference; 0: none
};

struct Trial {
  Status status;  // an error if the trial did not run; the other members are unset then
  bool differs = false;
  bool stable = true;  // all runs gave the same bits
  Comparison worst;    // of the worst output
};
/// Never fails: Trial::status has the error.
Trial try_sample(Sample& sample, const Setting& setting);
Trial try_package(Sample& sample, const std::shared_ptr<const package::Package>& package,
                  const Setting& setting);

/// Executes run number `run`, counted from 0. Before every second run, including the first, the
/// session runs with other inputs, so that a kernel that reads memory that it has not written finds
/// other values.
Result<std::vector<HostTensor>> run_in_turn(Session& session, const InputSet& inputs, int run);

/// Whether the outputs of two runs have the same bits.
bool same_bits(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b);

}  // namespace reprise::app
