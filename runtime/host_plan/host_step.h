// Runs one host call of a plan.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/base/tensor.h"
#include "runtime/host/host_kernels.h"
#include "runtime/host_plan/host_program.h"
#include "runtime/plan/plan.h"

namespace reprise {

/// The plan of a host call, its interface, the bodies that it may call, its run, and what was
/// prepared for the call.
struct HostCaller {
  const plan::Plan& plan;
  const plan::Interface& io;
  const HostBodies& bodies;
  HostRun run;
  std::shared_ptr<const host::Prepared> prepared = nullptr;
};

/// Calls the host kernel, or runs the bodies of control flow. `inputs` is parallel to call.inputs,
/// with null for omitted inputs. Checks number, dtypes and shapes of the results against the plan,
/// and assigns the symbols whose values only the results provide. Errors name the node.
Result<std::vector<HostTensor>> run_host_call(const HostCaller& caller, const plan::HostCall& call,
                                              std::span<const HostTensor* const> inputs,
                                              std::vector<int64_t>& symbols);

/// Checks number, dtypes and shapes of the results of a call, and assigns symbols, as above.
Status check_results(const plan::Plan& plan, const plan::Interface& io, const plan::HostCall& call,
                     std::span<const HostTensor> results, std::vector<int64_t>& symbols);
/// The run of one call, whose random numbers depend on the name of its result: that is the same in
/// all variants of a package, and tells unrolled iterations of a loop apart.
HostRun run_of_call(const plan::Plan& plan, const plan::HostCall& call, HostRun run);

/// The call in messages: "node 'n' (Op)".
std::string describe_call(const plan::HostCall& call);

}  // namespace reprise
