// The rules of instructions that name elements of matrices, or convert them.
#pragma once

#include <string>

#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {

/// The fault of a MatrixGet, MatrixSet or MatrixConvert; empty if there is none.
std::string element_fault(const Kernel& k, const Inst& i);
/// Whether a matrix is a left operand that a team holds.
bool is_left_of_team(const MatrixVar& m);
/// Whether a sum may be stored to an array of this type.
bool stores_sum_to(Ty array);

}  // namespace reprise::kernel
