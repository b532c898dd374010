// The worst results that the rules of Vulkan and of the kernel language allow a device.
#pragma once

#include <cstdint>
#include <span>

#include "codegen/kernel/interpreter.h"
#include "codegen/kernel/kernel.h"

namespace reprise::kernel {

/// Bits of the row's result with the error that `options` ask for. The operands are of type `t`,
/// F32 or F16. Rows that are exact or correctly rounded come out as scalar_function gives them.
uint64_t inexact_result(ScalarOp op, Ty t, std::span<const uint64_t> operands,
                        const InterpretOptions& options);
/// Whether Vulkan allows the row's results other errors than rounding to the nearest.
bool is_native(ScalarOp op);
/// Add, Sub, Mul and Fma of F32 for NativeError::Every.
float every_sum(float a, float b, uint64_t seed);
float every_product(float a, float b, uint64_t seed);
float every_fma(float a, float b, float c, uint64_t seed);
/// A conversion to F16, which devices round in a direction of their choice.
uint64_t inexact_f16(uint64_t bits, Ty from, const InterpretOptions& options);
/// What a sum may be off by when a device adds its terms in another order: 0 for None, negative for
/// Low. `magnitude` is the sum of the terms' absolute values, `sum` the bits of the result.
double reordering_error(double magnitude, Ty t, uint64_t sum, const InterpretOptions& options);

}  // namespace reprise::kernel
