// Integer division by zero, which is undefined in ONNX, is an error of the run.
#pragma once

#include "codegen/kernel/build/builder.h"

namespace reprise::kernel {

/// Sets ErrorCode::DivisionByZero if `op` divides integers and any lane of the divisor is zero.
void check_divisor(Builder& b, ScalarOp op, Val divisor);

}  // namespace reprise::kernel
