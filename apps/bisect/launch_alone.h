// One launch of a device's plan, run by itself with the inputs that the host computed. Launches
// that only fill scratch memory for it run before it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/bisect/host_values.h"
#include "apps/common/compare.h"
#include "apps/common/inputs.h"
#include "codegen/compiler.h"
#include "codegen/kernel/kernel.h"
#include "runtime/session.h"

namespace reprise::app {

/// What compiling a graph for one device leaves behind.
struct Compiled {
  std::shared_ptr<const package::Package> package;
  std::unique_ptr<graph::Graph> optimised;
  /// After each pass, in order; the last is `optimised` without what autocast did.
  std::vector<std::pair<std::string, std::unique_ptr<graph::Graph>>> passes;
  std::map<std::string, kernel::Kernel> kernels;  // of the one variant, by name
  CompileReport report;

  const plan::Plan& plan() const { return package->variants.front().plan; }
  bool has_plan() const { return !package->variants.empty(); }
};
/// `options` are for one device.
Result<Compiled> compile_graph(const graph::Graph& model, const CompileOptions& options);

/// A package of one launch and those that fill its scratch memory, of fixed sizes, with what goes
/// in and what must come out.
struct LaunchAlone {
  std::shared_ptr<const package::Package> package;
  InputSet inputs;
  std::vector<graph::ValueId> reads, writes;  // parallel to inputs and to what a run returns
  std::vector<HostTensor> expected;

  const plan::Plan& plan() const { return package->variants.front().plan; }
  const plan::Launch& launch(size_t step) const {
    return std::get<plan::Launch>(plan().steps[step].what);
  }
  /// The last one, which writes the results.
  const plan::Launch& launch() const { return launch(plan().steps.size() - 1); }
  const std::string& kernel() const { return plan().kernels[launch().kernel].name; }
};
/// Whether a launch writes nothing but scratch memory: it is checked with the launch that reads it.
bool writes_scratch_alone(const Compiled& compiled, const plan::Launch& launch);
/// `step` is a launch that writes results; `values` are those of the optimised graph.
Result<LaunchAlone> isolate(const Compiled& compiled, size_t step, const Values& values);

/// What the kernel IR means, as the interpreter executes it: the outputs, or what a correct kernel
/// never does.
Result<std::vector<HostTensor>> interpret(const LaunchAlone& alone,
                                          const std::map<std::string, kernel::Kernel>& kernels);

/// Compares outputs of a launch with what they must be. What rounding alone may change is allowed:
/// where a plain comparison fails, the host computes the same again with small errors in each
/// value.
class LaunchJudge {
 public:
  LaunchJudge(const HostGraph& host, const graph::Graph& g, const Values& values, DType precision)
      : host_(host), g_(g), values_(values), precision_(precision) {}
  /// Of the output that is worst; its name is in the reason.
  Result<Comparison> judge(const LaunchAlone& alone, const std::vector<HostTensor>& actual) const;

 private:
  const HostGraph& host_;
  const graph::Graph& g_;
  const Values& values_;
  DType precision_;
};

/// How far results move when every value between is off by some units in the last place: for each
/// output and element what a right kernel may differ by. `recompute` puts errors into a run.
using Recompute = std::function<Result<std::vector<HostTensor>>(Noise& noise)>;
Result<std::vector<std::vector<double>>> slack_of(const std::vector<HostTensor>& expected,
                                                  const Recompute& recompute,
                                                  double least_unit = 0);

}  // namespace reprise::app
