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
/// Rounds an exact result for NativeError::Every: to a neighbour, above or below by a hash, of the
/// number that it rounds to. Numbers that need no rounding, zeros, infinities and NaN are
/// unchanged. It has no branches, so that loops over it are vectorised.
inline float every_rounding(double exact, uint64_t seed) {
  constexpr uint64_t kFactor = 0xbf58476d1ce4e5b9U;
  constexpr auto kLow = static_cast<uint32_t>(kFactor);
  constexpr auto kHigh = static_cast<uint32_t>(kFactor >> 32U);
  const auto v = static_cast<float>(exact);
  const auto bits = std::bit_cast<uint32_t>(v);
  // The upper half of (bits ^ seed) * kFactor: the hash is its bit 40.
  const uint32_t low = bits ^ static_cast<uint32_t>(seed);
  const uint32_t upper = static_cast<uint32_t>(uint64_t{low} * kLow >> 32U) + low * kHigh +
                         static_cast<uint32_t>(seed >> 32U) * kLow;
  const uint32_t neighbour = bits + (upper >> 7U & 2U) - 1;
  const auto is_finite = [](uint32_t b) {
    return static_cast<uint32_t>((b & 0x7fffffffU) < 0x7f800000U);
  };
  const uint32_t moves = static_cast<uint32_t>(static_cast<double>(v) != exact) &
                         static_cast<uint32_t>((bits & 0x7fffffffU) != 0) & is_finite(bits) &
                         is_finite(neighbour);
  return std::bit_cast<float>(bits ^ ((bits ^ neighbour) & (0U - moves)));
}
/// Add, Mul and Fma of F32 for NativeError::Every. Products of two floats are exact in double, and
/// so are their sums unless they are a factor of 2^29 apart.
inline float every_sum(float a, float b, uint64_t seed) {
  return every_rounding(static_cast<double>(a) + static_cast<double>(b), seed);
}
inline float every_product(float a, float b, uint64_t seed) {
  return every_rounding(static_cast<double>(a) * static_cast<double>(b), seed);
}
inline float every_fma(float a, float b, float c, uint64_t seed) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  return every_rounding(product + static_cast<double>(c), seed);
}
/// A conversion to F16, for which the device chooses the rounding direction.
uint64_t inexact_f16(uint64_t bits, Ty from, const InterpretOptions& options);
/// The error of a sum whose terms a device adds in another order: 0 for None, negative for Low.
/// `magnitude` is the sum of the terms' absolute values, `sum` the bits of the result.
double reordering_error(double magnitude, Ty t, uint64_t sum, const InterpretOptions& options);

}  // namespace reprise::kernel
