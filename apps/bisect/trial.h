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
  std::vector<HostTensor> expected;
  std::vector<std::vector<double>> slack;  // allowed for rounding, for each output; see slack_of()
};
/// Evaluates the model on the host; `inputs` are in the graph's order.
Result<Sample> make_sample(std::unique_ptr<graph::Graph> model, InputSet inputs);
/// Computes Sample::slack, which takes several evaluations.
Status add_slack(Sample& sample);
/// How far the sample's outputs move if no value is more precise than `least_unit`; see slack_of().
Result<std::vector<std::vector<double>>> slack_of(const Sample& sample, double least_unit = 0);

/// How a model is run.
struct Setting {
  CompileOptions compile;
  SessionOptions session;
  OpenedDevice device;
  int runs = 4;       // half of them in a second session; the trial differs if any run does
  bool slack = true;  // ignore differences that rounding explains
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
