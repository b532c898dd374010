// Kernels that leave memory as it is once a run has failed.
#pragma once

#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {

/// Makes the kernel do nothing if an earlier launch of the run has recorded an error. The kernel
/// must record none itself.
void guard(Kernel& k);

/// Whether the kernel records errors.
bool records_errors(const Kernel& k);
/// Whether it may do so after legalize(): 64-bit integers that do not fit are errors.
bool may_record_errors(const Kernel& k, const LegalizeFor& target);

}  // namespace reprise::kernel
