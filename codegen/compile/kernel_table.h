// Collects the kernels of a variant's plan: legalises them for the variant's devices, shares them
// between launches, merges launches and emits the kernels' code.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/compile/compile_context.h"
#include "codegen/kernel/ir/kernel.h"
#include "codegen/plan/state_updates.h"
#include "codegen/probes/probes.h"
#include "codegen/target/target.h"

namespace reprise {

/// The features of the target's devices, for which kernels are legalised.
kernel::LegalizeFor legalized_for(const lower::Target& target);

/// The kernels of one variant. Launches share kernels that are equal, or differ only in numbers.
class KernelTable {
 public:
  /// The arguments must outlive the table.
  KernelTable(CompileContext& context, const lower::Target& target, plan::Plan& p)
      : context_(context), target_(target), p_(p) {}

  /// Adds the kernel of a step of the plan.
  Status add(size_t step, PendingKernel&& kernel);
  /// Sets the kernel of each launch and merges launches. Returns the new index of each step.
  Result<std::vector<uint32_t>> merge();
  /// Emits the kernels. If one cannot be emitted, `failed` is a group that uses it.
  Status emit(const lower::Group** failed);
  /// The kernels of the plan, in order; empty unless they are to be probed.
  std::vector<EmittedKernel> take_emitted() { return std::move(emitted_); }

 private:
  /// Fills in the code of a kernel: SPIR-V, or CUDA text. Threads call it concurrently.
  Status emit(const kernel::Kernel& k, const std::string& structure, plan::KernelCode& code);
  /// Calls CompileOptions::on_kernel_ir and on_kernel.
  Status show(const kernel::Kernel& k, const plan::KernelCode& code);
  std::string unique(const std::string& base);

  CompileContext& context_;
  const lower::Target& target_;
  plan::Plan& p_;
  struct Use {
    size_t step, kernel;
    const lower::Group* group;
  };
  Status share();
  void drop_unused();
  std::vector<kernel::Kernel> kernels_;
  std::vector<Use> uses_;
  std::unordered_map<size_t, size_t> numbered_;  // kernels by their number
  std::vector<EmittedKernel> emitted_;
  std::set<std::string> names_;
};

}  // namespace reprise
