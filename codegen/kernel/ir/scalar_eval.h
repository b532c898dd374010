// The meaning of every scalar row and conversion, as C++ on the bits of one lane. The interpreter,
// constant folding and the references of tests use these functions.
#pragma once

#include <cstdint>

#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {

/// Takes the bits of the row's operands (for Where, the Bool first) in the low bytes of each word.
/// Returns the bits of the result, with the upper bytes zero.
using ScalarFn = uint64_t (*)(const uint64_t* operands);

/// The function of a row for operands of type t (for Where, its last two). Null if the row does not
/// take that type.
ScalarFn scalar_function(ScalarOp op, Ty t);

/// Op::Convert of one lane between compute types.
uint64_t convert_bits(uint64_t bits, Ty from, Ty to);

/// The bits of a number rounded to a compute type. Integers saturate, and NaN gives 0.
uint64_t bits_of(double v, Ty t);
/// The number with these bits; 64-bit integers are rounded.
double number_of(uint64_t bits, Ty t);
/// The sign- or zero-extended bits of an integer or Bool.
int64_t integer_of(uint64_t bits, Ty t);
/// Clears the bits beyond the width of a type.
uint64_t mask_bits(uint64_t bits, Ty t);

}  // namespace reprise::kernel
