// What all kernels of reductions share.
#pragma once

#include <string_view>

#include "codegen/kernel/build/builder.h"
#include "runtime/base/dtype.h"

namespace reprise::ops {

/// The result of a core reduction (ReduceSum, ReduceProd, ReduceMax, ReduceMin) over no elements,
/// as a value of `type`. For integers, the extremes are those of `dtype`, not of wider registers.
kernel::Val reduction_identity(kernel::Builder& b, kernel::ScalarOp combine, DType dtype,
                               kernel::Type type);

}  // namespace reprise::ops
