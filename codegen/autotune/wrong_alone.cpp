#include "codegen/autotune/wrong_alone.h"

#include "runtime/check/check.h"

namespace reprise {

std::string wrong_alone(Device& device, const package::CompiledPlan& plan) {
  const auto kernels = device.create_kernels(plan.plan.kernels);
  if (!kernels.ok()) return kernels.status().message();
  const auto checks = check_kernels(device, plan, *kernels);
  if (!checks.ok()) return checks.status().message();
  for (const KernelCheck& c : *checks) {
    if (c.verdict == KernelVerdict::Pass) continue;
    return "kernel '" + c.kernel + "' " +
           (c.verdict == KernelVerdict::Skipped ? std::string("cannot be compared alone")
                                                : "is wrong by itself: " + c.reason);
  }
  return {};
}

}  // namespace reprise
