// Which instructions a part of a kernel's results depends on: those of some invocations or stores,
// or only which elements are stored or loaded.
#pragma once

#include <span>
#include <vector>

#include "codegen/interpreter/interpreter.h"
#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {

/// Whether the kernel uses values of other lanes of its subgroups.
bool exchanges_lanes(const Kernel& k);

/// For each instruction, whether every invocation must execute it. For values, that is so if
/// control flow, shared memory, or an access whose index or execution depends on data needs it; all
/// other instructions contribute only to stores of their own subgroup. For stored or accessed
/// elements, these are the instructions that decide which elements those are. `loads`: all loads
/// from buffers and shared arrays are needed as well.
std::vector<bool> needed_everywhere(const Kernel& k, Wanted wanted, bool loads);

/// For each instruction, whether what these stores store depends on it, or whether it is needed
/// everywhere for values. Other stores may then read elements of locals that nothing has written.
/// Empty: all stores.
std::vector<bool> needed_for(const Kernel& k, std::span<const StoreOf> stores, bool loads);

}  // namespace reprise::kernel
