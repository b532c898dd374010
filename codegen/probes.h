// Makes the probes of a plan's kernels (runtime/plan/probe.h): what each kernel must give on seeded
// inputs, according to the interpreter.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/kernel/kernel.h"
#include "codegen/probe_memory.h"
#include "runtime/device_facts.h"
#include "runtime/plan/probe.h"

namespace reprise {

/// Of one model. Kernels that several variants have in common are interpreted once.
class ProbeMaker {
 public:
  /// `threads`: the caller's included; 0: one per core.
  ProbeMaker(const plan::Interface& io, unsigned threads) : io_(io), threads_(threads) {}

  /// One probe for each kernel of the plan; `kernels`, parallel to those of the plan, are what they
  /// were emitted from. A kernel that cannot be probed has a probe that says why.
  Result<std::vector<plan::Probe>> make(const plan::Plan& p, const Predicate& device,
                                        const std::vector<kernel::Kernel>& kernels);

 private:
  const plan::Interface& io_;
  unsigned threads_;
  ProbeFills fills_;
  std::map<std::string, plan::Probe> made_;  // by everything that a probe depends on
};

}  // namespace reprise
