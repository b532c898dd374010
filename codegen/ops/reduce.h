// What every kernel of a reduction has to know.
#pragma once

#include <string_view>

#include "codegen/kernel/builder.h"
#include "runtime/base/dtype.h"

namespace reprise::ops {

/// What a core reduction (ReduceSum, ReduceProd, ReduceMax, ReduceMin) gives for no elements, as a
/// value of `type`: integers have the extremes of their dtype, not of the registers that hold them.
kernel::Val reduction_identity(kernel::Builder& b, kernel::ScalarOp combine, DType dtype,
                               kernel::Type type);

}  // namespace reprise::ops
