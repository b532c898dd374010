// Finds the kernel that gives a wrong result for right inputs, the operators that are needed to
// reproduce that, and the cause.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/bisect/reduce.h"

namespace reprise::app {

struct BisectOptions {
  CompileOptions compile;  // for one device
  SessionOptions session;
  OpenedDevice device;
  int runs = 10;  // of a kernel, to find out whether it is deterministic
  double reduce_seconds = 120;
  /// The ids of other devices that may run the same kernels, and a function that opens them.
  std::vector<std::string> other_devices;
  std::function<Result<OpenedDevice>(const std::string& id)> open;
  /// A second reference, which counts as right if the host differs. It returns the outputs of the
  /// model in a file. Unset: the host counts as right.
  std::function<Result<std::vector<HostTensor>>(const std::string& onnx, const InputSet& inputs)>
      reference;
  std::function<void(const std::string&)> progress;
};

/// One change to how the model is run, and its result.
struct Experiment {
  enum class Kind : uint8_t { Schedule, Pass, Variant, Session, Device } kind = Kind::Pass;
  std::string name;    // of the pass, schedule, variant or device
  std::string what;    // for people: "with --disable-pass fusion"
  std::string result;  // "right", "wrong", "no change" (of the kernels), or why it is impossible
  bool same_kernels = false;  // for Device: it ran the same kernels as the device in question

  bool right() const { return result == "right"; }
  bool wrong() const { return result == "wrong"; }
};

struct BisectReport {
  bool differs = false;
  Comparison whole;  // of the model's worst output
  bool whole_stable = true;

  // The first kernel that is wrong for right inputs; empty if there is none.
  std::string kernel, schedule, variant;
  /// The kernels that fill scratch memory for it. They run with it, so one of them may be at fault.
  std::vector<std::string> scratch_kernels;
  std::string reduced_schedule;               // of the wrong kernel in the reduced model
  size_t launch = 0, launches = 0;            // its launch, counted from 1, and their number
  std::vector<std::string> nodes, operators;  // of the model, that the kernel computes
  /// "iteration 2 of the body of node 'loop'" if the kernel is of a body, which the launch, the
  /// nodes and the reduced model then belong to. Empty: of the model.
  std::string body;
  bool in_graph = false;  // a pass is wrong: it changed `nodes`, and `kernel` is right
  bool in_host = false;   // the host reference is wrong, for the first of `nodes`
  Comparison wrong;       // of the kernel's worst output, or else of the model's
  bool deterministic = true;
  int runs = 0, runs_differing = 0;  // all runs, and those whose bits differ from the first

  std::string interpreter;  // its result for the kernel; empty if it was not run
  std::vector<Experiment> experiments;
  /// "pass NAME", "schedule NAME", "lowering", "driver", "driver or emitter", "memory", "replay",
  /// "rounding", "precision", "host" or "unknown", and a sentence that explains it.
  std::string cause, explanation;
  std::optional<Reduced> reduced;
};

/// Runs all steps of docs/trust.md. `inputs` are in the graph's order.
Result<BisectReport> bisect(const graph::Graph& model, const InputSet& inputs,
                            const BisectOptions& options);

/// Runs a model with other settings (experiments.cpp). `launch` is the wrong launch of the compiled
/// model, counted from 0, if there is one; its group is compiled with other schedules as well.
std::vector<Experiment> experiment(Sample& sample, const Compiled& compiled,
                                   std::optional<size_t> launch, const BisectReport& report,
                                   const BisectOptions& options);
/// Derives the cause from the evidence in the report (cause.cpp).
void name_cause(BisectReport& report, const BisectOptions& options);

}  // namespace reprise::app
