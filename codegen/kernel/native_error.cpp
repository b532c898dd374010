#include "codegen/kernel/native_error.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "codegen/kernel/scalar_eval.h"

namespace reprise::kernel {
namespace {

double ulp_of(double v) {
  const double a = std::max(std::fabs(v), 0x1p-126);
  return std::ldexp(1.0, std::ilogb(a) - 23);
}

/// Absolute error that Vulkan grants (appendix "Precision and operation of SPIR-V instructions");
/// nothing for rows that it wants correctly rounded.
std::optional<double> allowed_error(ScalarOp op, double x, double result) {
  switch (op) {
    case ScalarOp::Div:
      return 2.5 * ulp_of(result);
    case ScalarOp::ExpNative:
    case ScalarOp::Exp2Native:
      return (3 + 2 * std::fabs(x)) * ulp_of(result);
    case ScalarOp::LogNative:
    case ScalarOp::Log2Native:
      return x >= 0.5 && x <= 2 ? 0x1p-21 : 3 * ulp_of(result);
    case ScalarOp::SqrtNative:
      return 6.5 * ulp_of(result);  // 1 / inversesqrt(x)
    case ScalarOp::RsqrtNative:
      return 2 * ulp_of(result);
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

bool towards_high(std::span<const uint64_t> operands, NativeError mode) {
  if (mode != NativeError::Mixed) return mode == NativeError::High;
  uint64_t hash = 0x9e3779b97f4a7c15U;
  for (uint64_t bits : operands) hash = (hash ^ bits) * 0xbf58476d1ce4e5b9U;
  return (hash >> 40U & 1U) != 0;
}

}  // namespace

uint64_t native_result(ScalarOp op, std::span<const uint64_t> operands, NativeError mode) {
  const bool high = towards_high(operands, mode);
  const double x = number_of(operands[0], Ty::F32);
  if (undefined(op, x)) return bits_of(high ? 12345.0 : -12345.0, Ty::F32);
  if (op == ScalarOp::MinNum || op == ScalarOp::MaxNum) {
    const double y = number_of(operands[1], Ty::F32);
    if (std::isnan(x) || std::isnan(y)) return operands[high ? 0 : 1];
  }
  const uint64_t rounded = scalar_function(op, Ty::F32)(operands.data());
  uint64_t wide[3] = {};
  for (size_t i = 0; i < operands.size(); ++i) {
    wide[i] = std::bit_cast<uint64_t>(number_of(operands[i], Ty::F32));
  }
  const double exact = std::bit_cast<double>(scalar_function(op, Ty::F64)(wide));
  if (!std::isfinite(exact) || exact == 0 || !std::isfinite(number_of(rounded, Ty::F32))) {
    return rounded;
  }
  const auto error = allowed_error(op, x, exact);
  if (!error) return rounded;
  auto worst = static_cast<float>(high ? exact + *error : exact - *error);
  if (std::fabs(static_cast<double>(worst) - exact) > *error) {
    worst = std::nextafterf(worst, static_cast<float>(exact));
  }
  return std::bit_cast<uint32_t>(worst);
}

}  // namespace reprise::kernel
