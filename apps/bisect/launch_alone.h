// Runs one launch of a device's plan alone, with inputs that the host computed. Launches that only
// fill scratch memory for it run before it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "apps/bisect/host_values.h"
#include "apps/common/compare.h"
#include "apps/common/inputs.h"
#include "codegen/compile/compiler.h"
#include "codegen/kernel/ir/kernel.h"
#include "runtime/session/session.h"

namespace reprise::app {

/// The results of compiling a graph for one device.
struct Compiled {
  std::shared_ptr<const package::Package> package;
  std::unique_ptr<graph::Graph> optimised;
  /// The graph after each pass, in order. The last one is `optimised` without the effect of
  /// autocast.
  std::vector<std::pair<std::string, std::unique_ptr<graph::Graph>>> passes;
  std::unordered_map<std::string, graph::ValueId> values;  // of `optimised`, by name
  std::map<std::string, kernel::Kernel> kernels;           // of the only variant, by name
  CompileReport report;

  const plan::Plan& plan() const { return package->variants.front().plan; }
  bool has_plan() const { return !package->variants.empty(); }
};
/// `options` must be for one device.
Result<Compiled> compile_graph(const graph::Graph& model, const CompileOptions& options);

/// A package of fixed sizes with one launch, the launches that fill its scratch memory, its inputs
/// and the expected outputs.
struct LaunchAlone {
  std::shared_ptr<const package::Package> package;
  InputSet inputs;
  std::vector<graph::ValueId> reads, writes;  // parallel to the inputs and outputs
  std::vector<HostTensor> expected;

  const plan::Plan& plan() const { return package->variants.front().plan; }
  const plan::Launch& launch(size_t step) const {
    return std::get<plan::Launch>(plan().steps[step].what);
  }
  /// The last one, which writes the results.
  const plan::Launch& launch() const { return launch(plan().steps.size() - 1); }
  const std::string& kernel() const { return plan().kernels[launch().kernel].name; }
};
/// Whether a launch writes nothing but scratch memory. It is checked with the launch that reads it.
bool writes_only_scratch(const Compiled& compiled, const plan::Launch& launch);
/// `step` must be a launch that writes results; `values` are those of the optimised graph.
Result<LaunchAlone> isolate(const Compiled& compiled, size_t step, const Values& values);

/// Executes the kernel IR with the interpreter. Returns the outputs, or an error for behaviour that
/// no correct kernel has.
Result<std::vector<HostTensor>> interpret(const LaunchAlone& alone,
                                          const std::map<std::string, kernel::Kernel>& kernels);

/// Compares the outputs of a launch with the expected ones, and allows differences that rounding
/// explains: if a plain comparison fails, the host computes the same again with small errors in
/// each value.
class LaunchJudge {
 public:
  LaunchJudge(const HostGraph& host, const graph::Graph& g, const Values& values, DType precision)
      : host_(host), g_(g), values_(values), precision_(precision) {}
  /// The comparison of the worst output; the reason names it.
  Result<Comparison> judge(const LaunchAlone& alone, const std::vector<HostTensor>& actual) const;

 private:
  const HostGraph& host_;
  const graph::Graph& g_;
  const Values& values_;
  DType precision_;
};

/// How far results move if every intermediate value is off by a few units in the last place: for
/// each element of each output, the difference that a right kernel may have.
class Slack {
 public:
  /// Computes the outputs with such errors.
  using Recompute = std::function<Result<std::vector<HostTensor>>(Noise& noise)>;
  /// Numbers of trials. A few show how errors spread. A comparison of numbers that are almost equal
  /// may need many to come out differently.
  static constexpr int kFew = 8, kMany = 32;

  /// Computes the outputs until there have been this many trials. `exact` are the values of the
  /// graph without errors.
  Status grow(const std::vector<HostTensor>& expected, const Values& exact,
              const Recompute& recompute, int trials, double least_unit = 0);
  int trials() const { return trials_; }
  const std::vector<double>& of(size_t output) const { return outputs_[output]; }

 private:
  std::vector<std::vector<double>> outputs_;
  int trials_ = 0;
};

}  // namespace reprise::app
