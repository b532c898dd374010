// Which kernel gives a wrong result given right inputs, which of its operators it takes, and what
// makes the difference.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/bisect/reduce.h"

namespace reprise::app {

struct BisectOptions {
  CompileOptions compile;  // for the one device
  SessionOptions session;
  OpenedDevice device;
  int runs = 10;  // of a kernel, to see whether it is deterministic
  double reduce_seconds = 120;
  /// Other devices that may run the same kernels, by id, and how to open them.
  std::vector<std::string> other_devices;
  std::function<Result<OpenedDevice>(const std::string& id)> open;
  /// A second reference, which is right where the host differs: given a model file it returns that
  /// model's outputs. Unset: the host is right.
  std::function<Result<std::vector<HostTensor>>(const std::string& onnx, const InputSet& inputs)>
      reference;
  std::function<void(const std::string&)> progress;
};

/// One thing that was changed, and what came of it.
struct Experiment {
  enum class Kind : uint8_t { Schedule, Pass, Variant, Session, Device } kind = Kind::Pass;
  std::string name;    // of the pass, schedule, variant or device
  std::string what;    // for people: "with --disable-pass fusion"
  std::string result;  // "right", "wrong", "no change" (of the kernels), or why it is not possible
  bool same_kernels = false;  // Device: it ran the kernels of the device in question

  bool right() const { return result == "right"; }
  bool wrong() const { return result == "wrong"; }
};

struct BisectReport {
  bool differs = false;
  Comparison whole;  // of the model's worst output
  bool whole_stable = true;

  // The first kernel that is wrong given right inputs; empty where none is.
  std::string kernel, schedule, variant;
  std::string reduced_schedule;               // of the kernel that is wrong in the reduced model
  size_t launch = 0, launches = 0;            // counted from 1
  std::vector<std::string> nodes, operators;  // of the model, in the kernel
  bool in_graph = false;  // a pass is wrong: `kernel` computes what it says, `nodes` it has changed
  bool in_host = false;   // the host reference is wrong: the first of `nodes`
  Comparison wrong;       // of the kernel's worst output, else of the model's
  bool deterministic = true;
  int runs = 0, runs_differing = 0;  // bits that differ from the first run's

  std::string interpreter;  // what it says of the kernel; empty: not asked
  std::vector<Experiment> experiments;
  /// "pass NAME", "schedule NAME", "lowering", "driver", "driver or emitter", "memory",
  /// "replay", "rounding", "precision", "host", or "unknown", and a sentence about it.
  std::string cause, explanation;
  std::optional<Reduced> reduced;
};

/// `inputs` are in the graph's order.
Result<BisectReport> bisect(const graph::Graph& model, const InputSet& inputs,
                            const BisectOptions& options);

/// Runs the reduced model in other ways (experiments.cpp).
std::vector<Experiment> experiment(Sample& sample, const Compiled& compiled,
                                   const BisectReport& report, const BisectOptions& options);
/// What the report's evidence says (cause.cpp).
void name_cause(BisectReport& report, const BisectOptions& options);

}  // namespace reprise::app
