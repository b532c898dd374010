// Whether a model that was compiled in some way gives what the host gives.
#pragma once

#include <string>
#include <vector>

#include "apps/bisect/launch_alone.h"
#include "apps/common/devices.h"

namespace reprise::app {

/// A model in memory with inputs, and what the host makes of them.
struct Sample {
  std::unique_ptr<graph::Graph> model;
  InputSet inputs;
  std::vector<HostTensor> expected;
  std::vector<std::vector<double>> slack;  // of rounding, for each output; see slack_of()
};
/// Evaluates the model on the host; `inputs` are in the graph's order.
Result<Sample> make_sample(std::unique_ptr<graph::Graph> model, InputSet inputs);
/// Fills in Sample::slack, which takes several evaluations.
Status add_slack(Sample& sample);
/// How far the sample's outputs move when no value has more digits than `least_unit` says, as in
/// slack_of().
Result<std::vector<std::vector<double>>> slack_of(const Sample& sample, double least_unit = 0);

/// How a model is run.
struct Setting {
  CompileOptions compile;
  SessionOptions session;
  OpenedDevice device;
  int runs = 4;  // half of them in a second session; a result that differs in any of them differs
  bool slack = true;  // a difference that rounding may make is none
};

struct Trial {
  Status status;  // what failed; the rest is of a trial that ran
  bool differs = false;
  bool stable = true;  // all runs gave the same bits
  Comparison worst;    // of the output that is worst
};
/// Never fails: what went wrong is in the result.
Trial try_sample(Sample& sample, const Setting& setting);
Trial try_package(Sample& sample, const std::shared_ptr<const package::Package>& package,
                  const Setting& setting);

/// The run of that number, counted from 0. Before every second one, the first included, the session
/// runs with other numbers: what reads memory that it has not written then finds other values.
Result<std::vector<HostTensor>> run_in_turn(Session& session, const InputSet& inputs, int run);

/// Bits of two runs' outputs are the same.
bool same_bits(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b);

}  // namespace reprise::app
