// Conversions of low-bit types in kernels, by arithmetic on 32-bit integers, which is the same on
// every device. They follow runtime/base/low_bit.h, which defines the results.
#pragma once

#include "codegen/kernel/build/builder.h"
#include "runtime/base/low_bit.h"

namespace reprise::ops {

/// The dtype of the numbers that low_bit_number() returns: I32 for I4 and I2, U32 for U4 and U2,
/// F32 for the floats.
DType low_bit_number_type(DType from);
/// The number that a code stands for. `code` is an element as kernels load it: 32 bits, of which
/// those above the type's own are ignored. Works on vectors.
kernel::Val low_bit_number(kernel::Builder& b, DType from, kernel::Val code);
/// The code of a number: of an F32 for a float type; of an F32 or an integer for an integer type.
kernel::Val low_bit_code(kernel::Builder& b, DType to, kernel::Val number, LowBitRules rules);

}  // namespace reprise::ops
