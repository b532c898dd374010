// What rows of scalar_ops.def compute, in long double, and kernels of one row.
#pragma once

#include <map>

#include "codegen/kernel/build/builder.h"

namespace reprise::kernel {

using Real = long double;
using Reference = Real (*)(Real a, Real b, Real c);

/// Every row that takes floats and gives one, but Where and Fma.
const std::map<ScalarOp, Reference>& references();

/// y[i] = row(x0[i], x1[i], ...) of operands of one type, expanded, for exact targets if `exact`. A
/// result of U32 is that of a row that gives a Bool.
Kernel row_kernel(ScalarOp op, Ty operand, Ty result, bool exact = false);

}  // namespace reprise::kernel
