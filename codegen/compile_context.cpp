#include "codegen/compile_context.h"

#include <algorithm>
#include <utility>

namespace reprise {

bool is_disabled(const CompileOptions& options, std::string_view pass) {
  const std::vector<std::string>& names = options.disabled_passes;
  return std::find(names.begin(), names.end(), pass) != names.end();
}

CompileContext::CompileContext(graph::Graph& g, package::Package& p, const CompileOptions& o,
                               std::vector<lower::Target> named, CompileReport& r)
    : model(g),
      options(o),
      targets(std::move(named)),
      report(r),
      weights(p),
      lowerings(g, !is_disabled(o, kEqualKernels)),
      kernels(!is_disabled(o, kEqualKernels)) {}

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
