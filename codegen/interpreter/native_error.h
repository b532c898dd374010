// The worst results that Vulkan and the kernel language allow a device to have.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "codegen/interpreter/interpreter.h"
#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {

/// The bits of a row's result with the error that `options` ask for. The operands have type `t`,
/// F32 or F16. Rows that are exact or correctly rounded have the result of scalar_function.
uint64_t inexact_result(ScalarOp op, Ty t, std::span<const uint64_t> operands,
                        const InterpretOptions& options);
/// Whether Vulkan allows the row's results errors other than rounding to nearest.
bool is_native(ScalarOp op);
/// For NativeError::Every: the neighbour of a number that is not exact, above or below by a hash.
/// Zeros, infinities, NaN and the largest numbers are unchanged. It has no branches, so that loops
/// over it are vectorised.
inline float every_rounding(float nearest, bool inexact, uint64_t seed) {
  const auto bits = std::bit_cast<uint32_t>(nearest);
  const uint32_t hash = (bits ^ static_cast<uint32_t>(seed)) * 0x9e3779b1U;
  const uint32_t neighbour = bits + (hash >> 30U & 2U) - 1;
  const bool moves = inexact && (bits & 0x7fffffffU) - 1 < 0x7f7ffffeU;
  return std::bit_cast<float>(moves ? neighbour : bits);
}
/// Add, Mul and Fma of F32 for NativeError::Every.
inline float every_sum(float a, float b, uint64_t seed) {
  const float sum = a + b;
  const float part = sum - a;  // the rounding error is the difference of what was added to `part`
  const float error = (a - (sum - part)) + (b - part);
  return every_rounding(sum, error != 0, seed);
}
inline float every_product(float a, float b, uint64_t seed) {
  const double exact = static_cast<double>(a) * static_cast<double>(b);
  const auto product = static_cast<float>(exact);
  return every_rounding(product, static_cast<double>(product) != exact, seed);
}
inline float every_fma(float a, float b, float c, uint64_t seed) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double sum = product + static_cast<double>(c);
  const auto nearest = static_cast<float>(sum);
  return every_rounding(nearest, static_cast<double>(nearest) != sum, seed);
}
/// A conversion to F16, for which the device chooses the rounding direction.
uint64_t inexact_f16(uint64_t bits, Ty from, const InterpretOptions& options);
/// The error of a sum whose terms a device adds in another order: 0 for None, negative for Low.
/// `magnitude` is the sum of the terms' absolute values, `sum` the bits of the result.
double reordering_error(double magnitude, Ty t, uint64_t sum, const InterpretOptions& options);

}  // namespace reprise::kernel
