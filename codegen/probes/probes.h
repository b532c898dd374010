// Makes the probes of a plan's kernels (runtime/plan/probe.h): the results that each kernel must
// have on seeded inputs, as the interpreter computes them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/kernel/ir/kernel.h"
#include "codegen/options/compile_options.h"
#include "codegen/probes/probe_memory.h"
#include "runtime/facts/device_facts.h"
#include "runtime/plan/probe.h"

namespace reprise {

/// A kernel as it was emitted, and its kernel::structure().
struct EmittedKernel {
  kernel::Kernel kernel;
  std::string structure;
};

/// Makes the probes of one model. Kernels that several variants share are interpreted once.
class ProbeMaker {
 public:
  /// Both must outlive it. Of the options, it uses the threads and the report of progress.
  ProbeMaker(const plan::Interface& io, const CompileOptions& options)
      : io_(io), options_(options) {}

  /// Returns one probe for each kernel of the plan. `kernels`, parallel to the plan's, is the
  /// kernel IR that they were emitted from, and verifies. The probe of a kernel that cannot be
  /// probed says why.
  Result<std::vector<plan::Probe>> make(const plan::Plan& p, const Predicate& device,
                                        const std::vector<EmittedKernel>& kernels);

 private:
  const plan::Interface& io_;
  const CompileOptions& options_;
  ProbeFills fills_;
  std::map<std::string, plan::Probe> made_;  // by everything that a probe depends on
};

}  // namespace reprise
