// Collects the kernels of a variant's plan: legalises them for the variant's devices, shares them
// between launches and emits their code.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/compile_context.h"
#include "codegen/kernel/kernel.h"
#include "codegen/lower/target.h"

namespace reprise {

/// What kernels are rewritten for so that the target's devices can run them.
kernel::LegalizeFor legalized_for(const lower::Target& target);

/// Kernels of one variant. Launches share those that are equal, or equal but for numbers.
class KernelTable {
 public:
  /// What is given outlives the table.
  KernelTable(CompileContext& context, const lower::Target& target, plan::Plan& p)
      : context_(context), target_(target), p_(p) {}

  /// Takes the kernel of the plan's next step. Kernels with the same number are equal.
  Status add(kernel::Kernel k, std::optional<size_t> number);
  /// Gives the launches their kernels.
  Status finish();
  /// Those of the plan, in order, where they are to be probed.
  std::vector<kernel::Kernel> take_emitted() { return std::move(emitted_); }

 private:
  /// Everything of the code: SPIR-V, or CUDA text. Threads call it at once.
  Status emit(const kernel::Kernel& k, plan::KernelCode& code);
  /// What the options want to see of each kernel.
  Status show(const kernel::Kernel& k, const plan::KernelCode& code);
  std::string unique(const std::string& base);

  CompileContext& context_;
  const lower::Target& target_;
  plan::Plan& p_;
  struct Use {
    size_t step, kernel;
  };
  std::vector<kernel::Kernel> kernels_;
  std::vector<Use> uses_;
  std::unordered_map<size_t, size_t> numbered_;  // kernels by their number
  std::vector<kernel::Kernel> emitted_;
  std::set<std::string> names_;
};

}  // namespace reprise
