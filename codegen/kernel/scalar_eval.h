// What every scalar row and conversion means, as C++ on the bits of one lane. The interpreter, the
// constant folder and the tests' references use these functions.
#pragma once

#include <cstdint>

#include "codegen/kernel/kernel.h"

namespace reprise::kernel {

/// Takes the row's operands (Where: the Bool first) as bits in the low bytes of each word; returns
/// the result's bits, upper bytes zero.
using ScalarFn = uint64_t (*)(const uint64_t* operands);

/// The function of a row for operands of type t (Where: of its last two). Null when the row does
/// not take that type.
ScalarFn scalar_function(ScalarOp op, Ty t);

/// Op::Convert between compute types, of one lane.
uint64_t convert_bits(uint64_t bits, Ty from, Ty to);

/// Bits of a number rounded to a compute type (integers saturate, NaN gives 0).
uint64_t bits_of(double v, Ty t);
/// The number that the bits of a type stand for; 64-bit integers are rounded.
double number_of(uint64_t bits, Ty t);
/// Sign or zero extension of an integer's or Bool's bits.
int64_t integer_of(uint64_t bits, Ty t);
/// Keeps the bits that a type has.
uint64_t mask_bits(uint64_t bits, Ty t);

}  // namespace reprise::kernel
