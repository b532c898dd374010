// Integer division by zero, which is undefined in ONNX, is an error of the run.
#pragma once

#include "codegen/kernel/builder.h"

namespace reprise::lower {

/// Sets ErrorCode::DivisionByZero if `op` divides integers and any lane of the divisor is zero.
void check_divisor(kernel::Builder& b, kernel::ScalarOp op, kernel::Val divisor);

}  // namespace reprise::lower
