// Roots, exponentials, logarithms and hyperbolic functions.
#include <array>
#include <cmath>
#include <numbers>

#include "codegen/kernel/legal/expand_math.h"

namespace reprise::kernel {

Val FloatMath::polynomial(Val z, std::span<const double> coefficients) {
  auto it = coefficients.rbegin();
  Val sum = c(*it++);
  while (it != coefficients.rend()) sum = mul_add(sum, z, c(*it++));
  return sum;
}

/// Adding 1.5 * 2^23 (in F64, 2^52) rounds to an integer and leaves it in the low bits, without a
/// conversion, which would be undefined for NaN.
FloatMath::Rounded FloatMath::round_small(Val x) {
  const double magic = std::ldexp(1.5, f_.mantissa);
  const auto first = static_cast<int64_t>(one_exponent());
  const int64_t zero = first * (f_.bias + f_.mantissa) + first / 2;
  const Val shifted = b_.add(x, c(magic));
  return {b_.sub(shifted, c(magic)), b_.sub(ibits(shifted), i(zero))};
}

/// workarounds::kUnsignedFloats. The half of a large number, whose last bit stands for two, is
/// rounded once as a signed number, and doubling is exact.
Val FloatMath::of_unsigned(Val v) {
  const Val last = op(ScalarOp::BitAnd, v, u(1));
  const Val half = op(ScalarOp::BitOr, op(ScalarOp::ShiftRight, v, u(1)), last);
  const Val number = ibits(v), rounded = b_.convert(ibits(half), Ty::F32);
  return b_.select(b_.lt(number, i(0)), b_.add(rounded, rounded), b_.convert(number, Ty::F32));
}

Val FloatMath::power_of_two(Val n) {
  return real(op(ScalarOp::ShiftLeft, b_.add(n, i(f_.bias)), i(f_.mantissa)));
}

FloatMath::Decomposed FloatMath::decompose(Val x) {
  const auto sqrt_half = static_cast<int64_t>(f_.sqrt_half);
  const auto mantissa = static_cast<int64_t>(one_exponent() - 1);
  const Val offset = b_.sub(ibits(x), i(sqrt_half));
  return {op(ScalarOp::ShiftRight, offset, i(f_.mantissa)),
          real(b_.add(op(ScalarOp::BitAnd, offset, i(mantissa)), i(sqrt_half)))};
}

Val FloatMath::sqrt(Val x) {
  const Val negative = gt(bits(x), u(minus_zero_bits()));
  return b_.select(negative, nan(), b_.scalar_op(ScalarOp::SqrtNative, {x}));
}

Val FloatMath::rsqrt(Val x) {
  const Val negative = gt(bits(x), u(minus_zero_bits()));
  const Val root = b_.scalar_op(ScalarOp::RsqrtNative, {x});
  const Val infinity = real(op(ScalarOp::BitOr, bits(x), u(inf_bits())));
  const Val r = b_.select(b_.eq(x, c(0)), infinity, root);
  return b_.select(negative, nan(), r);
}

Val FloatMath::log(Val x, bool base_2) {
  // As unsigned numbers, NaN and all numbers below zero are above infinity.
  const Val invalid = gt(bits(x), u(inf_bits()));
  // A subnormal number is the least one times the integer that its bits are, which is a normal
  // number. Devices take subnormal operands as they are, as zero, or (llvmpipe) as neither.
  const Val small = b_.lt(bits(x), u(one_exponent()));
  const int least = f_.bias - 1 + f_.mantissa;
  const Val scaled = b_.select(small, b_.convert(ibits(x), f_.real), x);
  Val r;
  if (f_.wide()) {
    const Decomposed d = decompose(scaled);
    const Val exponent = b_.sub(d.exponent, b_.select(small, i(least), i(0)));
    const Pair pair = base_2 ? log2_pair(scaled) : Pair{};
    r = base_2 ? b_.add(b_.sub(pair.high, b_.select(small, c(least), c(0))), pair.low)
               : log_core(b_.convert(exponent, f_.real), b_.sub(d.fraction, c(1)), c(0));
    r = b_.select(b_.eq(bits(x), u(inf_bits())), x, r);
  } else {
    const Val log = b_.scalar_op(base_2 ? ScalarOp::Log2Native : ScalarOp::LogNative, {scaled});
    r = b_.select(small, b_.sub(log, c(base_2 ? least : least * std::numbers::ln2)), log);
  }
  const Val zero = b_.eq(abs_bits(x), u(0));
  return b_.select(zero, neg(inf()), b_.select(invalid, nan(), r));
}

/// Undefined for NaN, as the native row is, but for exact targets.
Val FloatMath::exp(Val x) {
  if (exact_) return b_.scalar_op(ScalarOp::Exp, {x});
  if (!f_.wide()) return b_.scalar_op(ScalarOp::ExpNative, {x});
  const Exponential e =
      exponential(op(ScalarOp::MinNum, op(ScalarOp::MaxNum, x, c(f_.exp_least)), c(f_.exp_most)));
  return scaled(b_.add(c(1), e.p), e.n);
}

Val FloatMath::exp2(Val x) {
  if (!f_.wide()) return b_.scalar_op(ScalarOp::Exp2Native, {x});
  const Val limit = c(f_.exponent_limit);
  return exp2_pair(op(ScalarOp::MinNum, op(ScalarOp::MaxNum, x, neg(limit)), limit), c(0));
}

/// 2^n in two factors, so that neither leaves the exponent range.
Val FloatMath::scaled(Val x, Val n) {
  const Val half = op(ScalarOp::ShiftRight, n, i(1));
  return b_.mul(b_.mul(x, power_of_two(half)), power_of_two(b_.sub(n, half)));
}

FloatMath::Exponential FloatMath::exponential(Val x) {
  const Rounded n = round_small(b_.mul(x, c(1.4426950408889634)));
  const Val r =
      b_.sub(b_.sub(x, b_.mul(n.number, c(f_.ln2_high))), b_.mul(n.number, c(f_.ln2_low)));
  const Val q = polynomial(r, f_.exponential);
  const Val r2 = b_.mul(r, r);
  const Val p = b_.add(r, b_.mul(r2, b_.add(c(0.5), b_.mul(r, q))));
  return {n.integer, p};
}

Val FloatMath::expm1(Val x) {
  const Val clamped =
      op(ScalarOp::MinNum, op(ScalarOp::MaxNum, x, c(f_.expm1_least)), c(f_.expm1_most));
  const Exponential e = exponential(clamped);
  // 2^n p + (2^n - 1), halved so that 2^n stays finite.
  const Val half = power_of_two(b_.sub(e.n, i(1)));
  const Val r = b_.add(b_.mul(half, e.p), b_.sub(half, c(0.5)));
  const Val direct = b_.eq(e.n, i(0));
  return keep_nan(x, b_.select(direct, e.p, b_.add(r, r)));
}

Val FloatMath::cosh(Val x) {
  const Exponential e = exponential(op(ScalarOp::MinNum, abs(x), c(f_.sinh_most)));
  // A quarter of exp(|x|): cosh is finite a little beyond exp.
  const Val quarter = b_.mul(power_of_two(b_.sub(e.n, i(2))), b_.add(c(1), e.p));
  const Val r = b_.add(b_.add(quarter, quarter), b_.div(c(0.125), quarter));
  return keep_nan(x, r);
}

Val FloatMath::sinh(Val x) {
  const Exponential e = exponential(op(ScalarOp::MinNum, abs(x), c(f_.sinh_most)));
  const Val quarter = b_.mul(power_of_two(b_.sub(e.n, i(2))), b_.add(c(1), e.p));
  const Val large = b_.sub(b_.add(quarter, quarter), b_.div(c(0.125), quarter));
  const Val z = b_.mul(x, x);
  const Val q = polynomial(z, f_.sinh);
  const Val small = b_.add(x, b_.mul(b_.mul(x, z), q));
  const Val r = b_.select(b_.lt(abs(x), c(1)), small, with_sign(large, x));
  return keep_nan(x, r);
}

Val FloatMath::log1p_core(Val x, Val extra) {
  const Val one = c(1);
  const Val y = b_.add(one, x);
  const Decomposed d = decompose(y);
  // What the rounding of y lost.
  const Val lost = b_.select(gt(y, c(2)), b_.sub(one, b_.sub(y, x)), b_.sub(x, b_.sub(y, one)));
  const Val direct = b_.eq(d.exponent, i(0));
  const Val f = b_.select(direct, x, b_.sub(d.fraction, one));
  const Val correction = b_.select(direct, c(0), b_.div(lost, y));
  return log_core(b_.add(b_.convert(d.exponent, f_.real), extra), f, correction);
}

Val FloatMath::log_core(Val exponent, Val f, Val correction) {
  const Val s = b_.div(f, b_.add(c(2), f));
  const Val z = b_.mul(s, s);
  const Val rest = b_.mul(z, polynomial(z, f_.logarithm));
  const Val half_square = b_.mul(b_.mul(c(0.5), f), f);
  const Val low = b_.add(b_.mul(s, b_.add(half_square, rest)),
                         b_.add(b_.mul(exponent, c(f_.ln2_low)), correction));
  return b_.add(b_.mul(exponent, c(f_.ln2_high)), b_.add(f, b_.sub(low, half_square)));
}

Val FloatMath::log1p(Val x) {
  const Val r = log1p_core(x, c(0));
  const uint64_t minus_one = minus_zero_bits() + one_bits();
  const Val invalid = gt(bits(x), u(minus_one));  // below -1
  const Val ends = b_.select(b_.eq(bits(x), u(minus_one)), neg(inf()), r);
  return b_.select(inf_or_nan(x), x, b_.select(invalid, nan(), ends));
}

Val FloatMath::asinh(Val x) {
  // log1p(a + a^2 / (1 + sqrt(1 + a^2))); where a^2 would be large, log1p(a) + log(2).
  const Val a = abs(x);
  const Val large = gt(a, c(f_.large));
  const Val square = b_.mul(a, a);
  const Val root = b_.scalar_op(ScalarOp::SqrtNative, {b_.add(c(1), square)});
  const Val inner = b_.add(a, b_.div(square, b_.add(c(1), root)));
  const Val r = log1p_core(b_.select(large, a, inner), b_.select(large, c(1), c(0)));
  const Val special = op(ScalarOp::GreaterOrEqual, abs_bits(x), u(inf_bits()));
  return b_.select(special, x, with_sign(r, x));
}

Val FloatMath::acosh(Val x) {
  // With t = x - 1: log1p(t + sqrt(2 t + t^2)).
  const Val large = gt(x, c(f_.large));
  const Val t = b_.sub(x, c(1));
  const Val root =
      b_.scalar_op(ScalarOp::SqrtNative, {op(ScalarOp::MaxNum, b_.mul(t, b_.add(c(2), t)), c(0))});
  const Val r = log1p_core(b_.select(large, x, b_.add(t, root)), b_.select(large, c(1), c(0)));
  const Val invalid = b_.lt(ibits(x), i(static_cast<int64_t>(one_bits())));  // below 1, -NaN
  return b_.select(inf_or_nan(x), x, b_.select(invalid, nan(), r));
}

Val FloatMath::atanh(Val x) {
  // log1p(2 a / (1 - a)) / 2
  const Val a = abs(x);
  const Val r = b_.mul(c(0.5), log1p_core(b_.div(b_.add(a, a), b_.sub(c(1), a)), c(0)));
  const Val one = u(one_bits());
  const Val ends = b_.select(b_.eq(abs_bits(x), one), inf(), r);
  return b_.select(gt(abs_bits(x), one), nan(), with_sign(ends, x));
}

Val FloatMath::tanh(Val x) {
  const Val e = exp(b_.add(x, x));
  const Val large = b_.sub(c(1), b_.div(c(2), b_.add(e, c(1))));
  const Val z = b_.mul(x, x);
  const Val q = polynomial(z, f_.tanh);
  const Val small = mul_add(b_.mul(x, z), q, x);
  return keep_nan_of_exp(x, b_.select(b_.lt(abs(x), c(0.6)), small, large));
}

/// 1 - erf(a) for a >= 1. F32 needs only its absolute error to be small.
Val FloatMath::erf_complement(Val a) {
  if (f_.wide()) {
    const Val tail = normal_tail(b_.mul(a, c(std::numbers::sqrt2)));
    return b_.mul(exp(b_.mul(a, neg(a))), b_.add(tail, tail));
  }
  constexpr std::array kLog = {-0.000256444997, -1.12742615,    -0.637600005,  -0.1035669,
                               0.0220519993,    -0.00299954135, 0.000191504208};
  return exp(polynomial(op(ScalarOp::MinNum, a, c(4)), kLog));
}

Val FloatMath::erf(Val x) {
  const Val z = b_.mul(x, x);
  const Val large = with_sign(b_.sub(c(1), erf_complement(abs(x))), x);
  // x + x p. Where x is tiny, x p would be subnormal, which a device may flush to zero, but 8 x p
  // is not.
  const Val p = polynomial(z, f_.erf);
  const Val scaled = b_.mul(c(8), x);
  const Val small = b_.mul(c(0.125), b_.add(scaled, b_.mul(scaled, p)));
  return keep_nan(x, b_.select(b_.lt(abs(x), c(1)), small, large));
}

}  // namespace reprise::kernel
