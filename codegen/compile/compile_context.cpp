#include "codegen/compile/compile_context.h"

#include <utility>

namespace reprise {

CompileContext::CompileContext(graph::Graph& g, package::Package& p, const CompileOptions& o,
                               const ParsedOptions& parsed, CompileReport& r)
    : model(g),
      options(o),
      passes(parsed.passes),
      targets(parsed.targets),
      largest_weight(parsed.largest_weight),
      report(r),
      own_(std::make_unique<Stores>(p)),
      times(own_->times),
      weights(own_->weights),
      bodies(own_->bodies),
      device_bodies(own_->device_bodies),
      index_tests(passes.enabled(kEqualKernels)),
      lowerings(g, passes.enabled(kEqualKernels)),
      kernels(passes.enabled(kEqualKernels)) {}

CompileContext::CompileContext(graph::Graph& body, CompileContext& caller, const CompileOptions& o,
                               CompileReport& r)
    : model(body),
      options(o),
      passes(caller.passes),
      targets(caller.targets),
      largest_weight(caller.largest_weight),
      report(r),
      times(caller.times),
      weights(caller.weights),
      bodies(caller.bodies),
      device_bodies(caller.device_bodies),
      index_tests(passes.enabled(kEqualKernels)),
      lowerings(body, passes.enabled(kEqualKernels)),
      kernels(passes.enabled(kEqualKernels)) {}

void CompileContext::end_pass(std::string name) {
  report.passes.push_back({std::move(name), ms_since(last_end_)});
  last_end_ = Clock::now();
}

void CompileContext::end_variants() {
  report.passes.push_back({"lower", times.lower});
  report.passes.push_back({"legalize", times.legalize});
  report.passes.push_back({"emit", times.emit});
  report.passes.push_back({"hazards", times.hazards});
  if (options.probes) report.passes.push_back({"probes", times.probes});
  last_end_ = Clock::now();
}

void CompileContext::report_fault(BrokenGroup fault, const std::string& effect) {
  if (options.log)
    options.log("the compiler has a fault; please report it: " + effect + fault.why.message());
  report.broken.push_back(std::move(fault));
}

}  // namespace reprise
