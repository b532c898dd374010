// Roots, exponentials, logarithms and hyperbolic functions.
#include <numbers>

#include "codegen/kernel/expand_math.h"

namespace reprise::kernel {

// log(2) in two parts; the first has few enough bits that n * kLn2High is exact for |n| < 2^9.
constexpr double kLn2High = 0x1.62e4p-1;
constexpr double kLn2Low = 0x1.7f7d1cf79abcap-20;

Val Float32Math::polynomial(Val z, std::initializer_list<double> coefficients) {
  auto it = coefficients.end();
  Val sum = c(*--it);
  while (it != coefficients.begin()) sum = b_.add(b_.mul(sum, z), c(*--it));
  return sum;
}

/// Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits, without a conversion,
/// which would be undefined for NaN.
Float32Math::Rounded Float32Math::round_small(Val x) {
  const Val shifted = b_.add(x, c(0x1.8p23));
  return {b_.sub(shifted, c(0x1.8p23)), b_.sub(ibits(shifted), i(0x4b400000))};
}

Val Float32Math::power_of_two(Val n) {
  return real(op(ScalarOp::ShiftLeft, b_.add(n, i(127)), i(23)));
}

Val Float32Math::sqrt(Val x) {
  const Val negative = gt(bits(x), u(0x80000000U));
  return b_.select(negative, nan(), b_.scalar_op(ScalarOp::SqrtNative, {x}));
}

Val Float32Math::rsqrt(Val x) {
  const Val negative = gt(bits(x), u(0x80000000U));
  const Val root = b_.scalar_op(ScalarOp::RsqrtNative, {x});
  const Val infinity = real(op(ScalarOp::BitOr, bits(x), u(0x7f800000U)));
  const Val r = b_.select(b_.eq(x, c(0)), infinity, root);
  return b_.select(negative, nan(), r);
}

Val Float32Math::log(ScalarOp native, Val x) {
  // As unsigned numbers, NaN and all numbers below zero are above infinity.
  const Val invalid = gt(bits(x), u(0x7f800000U));
  // A subnormal number is 2^-149 times the integer that its bits are, which is a normal number.
  // Devices take subnormal operands as they are, as zero, or (llvmpipe) as neither.
  const Val small = b_.lt(bits(x), u(0x00800000U));
  const double exponent = native == ScalarOp::LogNative ? 149 * std::numbers::ln2 : 149;
  const Val scaled = b_.select(small, b_.convert(ibits(x), Ty::F32), x);
  const Val log = b_.scalar_op(native, {scaled});
  const Val r = b_.select(small, b_.sub(log, c(exponent)), log);
  const Val zero = b_.eq(abs_bits(x), u(0));
  return b_.select(zero, neg(inf()), b_.select(invalid, nan(), r));
}

Float32Math::Exponential Float32Math::exponential(Val x) {
  const Rounded n = round_small(b_.mul(x, c(1.4426950408889634)));
  const Val r = b_.sub(b_.sub(x, b_.mul(n.number, c(kLn2High))), b_.mul(n.number, c(kLn2Low)));
  const Val q = polynomial(r, {0.16666539, 0.041666396, 0.00836708955, 0.0013941545});
  const Val r2 = b_.mul(r, r);
  const Val p = b_.add(r, b_.mul(r2, b_.add(c(0.5), b_.mul(r, q))));
  return {n.integer, p};
}

Val Float32Math::expm1(Val x) {
  const Val clamped = op(ScalarOp::MinNum, op(ScalarOp::MaxNum, x, c(-20)), c(89));
  const Exponential e = exponential(clamped);
  // 2^n p + (2^n - 1), halved so that 2^n stays finite.
  const Val half = power_of_two(b_.sub(e.n, i(1)));
  const Val r = b_.add(b_.mul(half, e.p), b_.sub(half, c(0.5)));
  const Val direct = b_.eq(e.n, i(0));
  return keep_nan(x, b_.select(direct, e.p, b_.add(r, r)));
}

Val Float32Math::cosh(Val x) {
  const Exponential e = exponential(op(ScalarOp::MinNum, abs(x), c(90)));
  // A quarter of exp(|x|): cosh is finite a little beyond exp.
  const Val quarter = b_.mul(power_of_two(b_.sub(e.n, i(2))), b_.add(c(1), e.p));
  const Val r = b_.add(b_.add(quarter, quarter), b_.div(c(0.125), quarter));
  return keep_nan(x, r);
}

Val Float32Math::sinh(Val x) {
  const Exponential e = exponential(op(ScalarOp::MinNum, abs(x), c(90)));
  const Val quarter = b_.mul(power_of_two(b_.sub(e.n, i(2))), b_.add(c(1), e.p));
  const Val large = b_.sub(b_.add(quarter, quarter), b_.div(c(0.125), quarter));
  const Val z = b_.mul(x, x);
  const Val q = polynomial(z, {0.166666672, 0.00833335053, 0.000198360663, 2.81743951e-06});
  const Val small = b_.add(x, b_.mul(b_.mul(x, z), q));
  const Val r = b_.select(b_.lt(abs(x), c(1)), small, with_sign(large, x));
  return keep_nan(x, r);
}

Val Float32Math::log1p_core(Val x, Val extra) {
  const Val one = c(1);
  const Val y = b_.add(one, x);
  // y = 2^k m, m in [sqrt(1/2), sqrt(2)); c corrects the rounding of y.
  const Val offset = b_.sub(ibits(y), i(0x3f3504f3));
  const Val k = op(ScalarOp::ShiftRight, offset, i(23));
  const Val m = real(b_.add(op(ScalarOp::BitAnd, offset, i(0x007fffff)), i(0x3f3504f3)));
  const Val lost = b_.select(gt(y, c(2)), b_.sub(one, b_.sub(y, x)), b_.sub(x, b_.sub(y, one)));
  const Val direct = b_.eq(k, i(0));
  const Val f = b_.select(direct, x, b_.sub(m, one));
  const Val correction = b_.select(direct, c(0), b_.div(lost, y));
  // log(1 + f) = f - f^2/2 + s (f^2/2 + R(s^2)), s = f / (2 + f)
  const Val s = b_.div(f, b_.add(c(2), f));
  const Val z = b_.mul(s, s);
  const Val rest = b_.mul(z, polynomial(z, {0.666667819, 0.399770588, 0.298857749}));
  const Val half_square = b_.mul(b_.mul(c(0.5), f), f);
  const Val kf = b_.add(b_.convert(k, Ty::F32), extra);
  const Val low =
      b_.add(b_.mul(s, b_.add(half_square, rest)), b_.add(b_.mul(kf, c(kLn2Low)), correction));
  return b_.add(b_.mul(kf, c(kLn2High)), b_.add(f, b_.sub(low, half_square)));
}

Val Float32Math::log1p(Val x) {
  const Val r = log1p_core(x, c(0));
  const Val invalid = gt(bits(x), u(0xbf800000U));                            // below -1
  const Val special = op(ScalarOp::GreaterOrEqual, ibits(x), i(0x7f800000));  // inf, NaN
  const Val ends = b_.select(b_.eq(bits(x), u(0xbf800000U)), neg(inf()), r);
  return b_.select(special, x, b_.select(invalid, nan(), ends));
}

Val Float32Math::asinh(Val x) {
  // log1p(a + a^2 / (1 + sqrt(1 + a^2))); where a^2 would be large, log1p(a) + log(2).
  const Val a = abs(x);
  const Val large = gt(a, c(0x1p30));
  const Val square = b_.mul(a, a);
  const Val root = b_.scalar_op(ScalarOp::SqrtNative, {b_.add(c(1), square)});
  const Val inner = b_.add(a, b_.div(square, b_.add(c(1), root)));
  const Val r = log1p_core(b_.select(large, a, inner), b_.select(large, c(1), c(0)));
  const Val special = op(ScalarOp::GreaterOrEqual, abs_bits(x), u(0x7f800000U));
  return b_.select(special, x, with_sign(r, x));
}

Val Float32Math::acosh(Val x) {
  // With t = x - 1: log1p(t + sqrt(2 t + t^2)).
  const Val large = gt(x, c(0x1p30));
  const Val t = b_.sub(x, c(1));
  const Val root =
      b_.scalar_op(ScalarOp::SqrtNative, {op(ScalarOp::MaxNum, b_.mul(t, b_.add(c(2), t)), c(0))});
  const Val r = log1p_core(b_.select(large, x, b_.add(t, root)), b_.select(large, c(1), c(0)));
  const Val special = op(ScalarOp::GreaterOrEqual, ibits(x), i(0x7f800000));  // inf, NaN
  const Val invalid = b_.lt(ibits(x), i(0x3f800000));                         // below 1, -NaN
  return b_.select(special, x, b_.select(invalid, nan(), r));
}

Val Float32Math::atanh(Val x) {
  // log1p(2 a / (1 - a)) / 2
  const Val a = abs(x);
  const Val r = b_.mul(c(0.5), log1p_core(b_.div(b_.add(a, a), b_.sub(c(1), a)), c(0)));
  const Val one = u(0x3f800000U);
  const Val ends = b_.select(b_.eq(abs_bits(x), one), inf(), r);
  return b_.select(gt(abs_bits(x), one), nan(), with_sign(ends, x));
}

Val Float32Math::tanh(Val x) {
  const Val e = b_.scalar_op(ScalarOp::ExpNative, {b_.add(x, x)});
  const Val large = b_.sub(c(1), b_.div(c(2), b_.add(e, c(1))));
  const Val z = b_.mul(x, x);
  const Val q =
      polynomial(z, {-0.333332986, 0.133319587, -0.0537866838, 0.0208053812, -0.00590586523});
  const Val small = b_.add(x, b_.mul(b_.mul(x, z), q));
  return keep_nan(x, b_.select(b_.lt(abs(x), c(0.6)), small, large));
}

Val Float32Math::erf(Val x) {
  const Val a = op(ScalarOp::MinNum, abs(x), c(4));
  const Val q = polynomial(a, {-0.000256444997, -1.12742615, -0.637600005, -0.1035669, 0.0220519993,
                               -0.00299954135, 0.000191504208});
  const Val large = with_sign(b_.sub(c(1), b_.scalar_op(ScalarOp::ExpNative, {q})), x);
  const Val z = b_.mul(x, x);
  const Val p = polynomial(z, {0.128379167, -0.37612626, 0.112836003, -0.0268544443, 0.00518953521,
                               -0.000802084222, 7.88912221e-05});
  const Val small = b_.add(x, b_.mul(x, p));
  return keep_nan(x, b_.select(b_.lt(abs(x), c(1)), small, large));
}

}  // namespace reprise::kernel
