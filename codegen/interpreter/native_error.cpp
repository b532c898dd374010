#include "codegen/interpreter/native_error.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>

#include "codegen/kernel/ir/scalar_eval.h"

namespace reprise::kernel {
namespace {

/// The stored bits of a significand.
int digits_of(Ty t) {
  return t == Ty::F16 ? 10 : t == Ty::F64 ? 52 : 23;
}

double ulp_of(double v, Ty t) {
  const double smallest = t == Ty::F16 ? 0x1p-14 : t == Ty::F64 ? 0x1p-1022 : 0x1p-126;
  return std::ldexp(1.0, std::ilogb(std::max(std::fabs(v), smallest)) - digits_of(t));
}

/// The absolute error that Vulkan allows (appendix "Precision and operation of SPIR-V
/// instructions"); nothing for rows that it requires to be correctly rounded. Vulkan asks no more
/// of F64 than of F32. Devices are taken to be as accurate in units of the last place.
std::optional<double> allowed_error(ScalarOp op, Ty t, double x, double result) {
  const double ulp = ulp_of(result, t);
  switch (op) {
    case ScalarOp::Add:
    case ScalarOp::Sub:
    case ScalarOp::Mul:
      // F16 rows may be computed in F32.
      return t == Ty::F16 ? std::optional(ulp) : std::nullopt;
    case ScalarOp::Div:
      return 2.5 * ulp;
    case ScalarOp::ExpNative:
    case ScalarOp::Exp2Native:
      return (3 + 2 * std::fabs(x)) * ulp;
    case ScalarOp::LogNative:
    case ScalarOp::Log2Native:
      return x >= 0.5 && x <= 2 ? (t == Ty::F16 ? 0x1p-7 : 0x1p-21) : 3 * ulp;
    case ScalarOp::SqrtNative:
      return 6.5 * ulp;  // 1 / inversesqrt(x)
    case ScalarOp::RsqrtNative:
      return 2 * ulp;
    default:
      return std::nullopt;
  }
}

bool undefined(ScalarOp op, double x) {
  if (op == ScalarOp::SqrtNative) return x < 0;
  if (op == ScalarOp::ExpNative || op == ScalarOp::Exp2Native) return std::isnan(x);
  const bool positive =
      op == ScalarOp::LogNative || op == ScalarOp::Log2Native || op == ScalarOp::RsqrtNative;
  return positive && x <= 0;
}

bool towards_high(std::span<const uint64_t> operands, const InterpretOptions& options) {
  if (options.native_error == NativeError::Low) return false;
  if (options.native_error == NativeError::High) return true;
  uint64_t hash = 0x9e3779b97f4a7c15U ^ options.error_seed;
  for (uint64_t bits : operands) hash = (hash ^ bits) * 0xbf58476d1ce4e5b9U;
  return (hash >> 40U & 1U) != 0;
}

bool is_basic(ScalarOp op) {
  return op == ScalarOp::Add || op == ScalarOp::Sub || op == ScalarOp::Mul || op == ScalarOp::Fma;
}

/// An Fma whose product is unrounded or rounded in the other direction before the addition.
uint64_t inexact_fma(Ty t, std::span<const uint64_t> operands, const InterpretOptions& options) {
  const double product = number_of(operands[0], t) * number_of(operands[1], t);
  const double error = std::ldexp(std::fabs(product), -1 - digits_of(t));
  return bits_of(
      product + (towards_high(operands, options) ? error : -error) + number_of(operands[2], t), t);
}

uint64_t every_basic(ScalarOp op, std::span<const uint64_t> operands, uint64_t seed) {
  const auto real = [&](size_t i) {
    return std::bit_cast<float>(static_cast<uint32_t>(operands[i]));
  };
  const float result = op == ScalarOp::Fma   ? every_fma(real(0), real(1), real(2), seed)
                       : op == ScalarOp::Mul ? every_product(real(0), real(1), seed)
                       : op == ScalarOp::Add ? every_sum(real(0), real(1), seed)
                                             : every_sum(real(0), -real(1), seed);
  return std::bit_cast<uint32_t>(result);
}

uint64_t native_result(ScalarOp op, Ty t, std::span<const uint64_t> operands,
                       const InterpretOptions& options) {
  const uint64_t rounded = scalar_function(op, t)(operands.data());
  if (options.native_error == NativeError::None) return rounded;
  if (options.native_error == NativeError::Every && t == Ty::F32 && is_basic(op))
    return every_basic(op, operands, options.error_seed);
  const bool high = towards_high(operands, options);
  const double x = number_of(operands[0], t);
  if (undefined(op, x)) return bits_of(high ? 12345.0 : -12345.0, t);
  if (op == ScalarOp::MinNum || op == ScalarOp::MaxNum) {
    const double y = number_of(operands[1], t);
    if (std::isnan(x) || std::isnan(y)) return operands[high ? 0 : 1];
  }
  if (op == ScalarOp::Fma) return inexact_fma(t, operands, options);
  uint64_t exact_operands[3] = {};
  for (size_t i = 0; i < operands.size(); ++i)
    exact_operands[i] = std::bit_cast<uint64_t>(number_of(operands[i], t));
  const double exact = std::bit_cast<double>(scalar_function(op, Ty::F64)(exact_operands));
  if (!std::isfinite(exact) || exact == 0 || !std::isfinite(number_of(rounded, t))) return rounded;
  const auto error = allowed_error(op, t, x, exact);
  if (!error) return rounded;
  if (t != Ty::F32) return bits_of(high ? exact + *error : exact - *error, t);
  auto worst = static_cast<float>(high ? exact + *error : exact - *error);
  if (std::fabs(static_cast<double>(worst) - exact) > *error)
    worst = std::nextafterf(worst, static_cast<float>(exact));
  return std::bit_cast<uint32_t>(worst);
}

uint64_t flushed(uint64_t bits) {
  return (bits & 0x7f800000U) == 0 ? bits & 0x80000000U : bits;
}

}  // namespace

uint64_t inexact_result(ScalarOp op, Ty t, std::span<const uint64_t> operands,
                        const InterpretOptions& options) {
  const bool flush = options.flush_subnormals && t == Ty::F32;
  if (!flush) return native_result(op, t, operands, options);
  std::array<uint64_t, 3> own{};
  for (size_t i = 0; i < operands.size(); ++i) own[i] = flushed(operands[i]);
  const uint64_t bits = native_result(op, t, std::span(own).first(operands.size()), options);
  return row(op).result == ResultKind::Same ? flushed(bits) : bits;
}

bool is_native(ScalarOp op) {
  return allowed_error(op, Ty::F32, 1, 1).has_value();
}

uint64_t inexact_f16(uint64_t bits, Ty from, const InterpretOptions& options) {
  const uint64_t nearest = convert_bits(bits, from, Ty::F16);
  const double exact = number_of(bits, from), rounded = number_of(nearest, Ty::F16);
  if (!std::isfinite(exact) || !std::isfinite(rounded) || rounded == exact) return nearest;
  const bool high = towards_high(std::span(&bits, 1), options);
  if ((rounded > exact) == high) return nearest;
  // The neighbour on the other side of the exact value. Magnitudes are ordered like their bits.
  if (rounded == 0) return high ? 1 : 0x8001;
  return (rounded > 0) == high ? nearest + 1 : nearest - 1;
}

double reordering_error(double magnitude, Ty t, uint64_t sum, const InterpretOptions& options) {
  if (options.native_error == NativeError::None) return 0;
  const double error = magnitude * (t == Ty::F16 ? 0x1p-11 : 0x1p-24);
  return towards_high(std::span(&sum, 1), options) ? error : -error;
}

}  // namespace reprise::kernel
