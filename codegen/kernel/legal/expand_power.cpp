// Powers and floating-point remainders.
#include <cmath>
#include <numbers>

#include "codegen/kernel/legal/expand_math.h"

namespace reprise::kernel {

/// log2 of a positive normal number, to about 2^-33 relative (in F64, 2^-62).
FloatMath::Pair FloatMath::log2_pair(Val x) {
  const Decomposed parts = decompose(x);
  Val k = b_.convert(parts.exponent, f_.real);
  // A number m near which the fraction is, with 2^k m = x for f = 0. F64 needs it to be nearer than
  // 1 is, because powers multiply the error by up to 1074.
  Val twice = c(2);
  Val missing = c(0);
  if (f_.wide()) {
    const Val below = b_.lt(parts.fraction, c(0.8660254037844386));
    const Val above = gt(parts.fraction, c(1.118033988749895));
    const auto choose = [&](double one, double low, double high) {
      return b_.select(below, c(low), b_.select(above, c(high), c(one)));
    };
    twice = choose(2, 1.5, 2.5);
    k = b_.add(k, choose(0, -0x1.a8ff972p-2, 0x1.49a784bp-2));  // log2(m), 30 bits of it
    missing = choose(0, 0x1.fbd6879fa00b1p-32, 0x1.9a3715fc9257fp-31);
  }
  // s = f / (2 m + f) as s_high + s_low: s_high has half the bits, so that its products are exact.
  const Val f = b_.sub(parts.fraction, b_.mul(twice, c(0.5)));
  const Val d = b_.add(twice, f);
  const Val s = b_.div(f, d);
  const Val s_high = upper(s);
  const Val f_high = upper(f);
  const Val rest = b_.sub(b_.sub(b_.sub(f, b_.mul(twice, s_high)), b_.mul(s_high, f_high)),
                          b_.mul(s_high, b_.sub(f, f_high)));
  const Val s_low = b_.div(rest, d);
  constexpr double kScale = 2 * std::numbers::log2e;
  const double scale_high = f_.two_over_ln2_high;
  const Val z = b_.mul(s, s);
  const Val r = b_.mul(polynomial(z, f_.log2_tail), b_.mul(s, z));
  const Val product = b_.mul(s_high, c(scale_high));
  Val tail = b_.add(b_.mul(s_high, c(f_.two_over_ln2_low)), b_.mul(b_.add(s_low, r), c(kScale)));
  if (f_.wide()) tail = b_.add(tail, missing);
  const Val sum = b_.add(k, product);
  const Val lost = b_.add(b_.sub(k, sum), product);
  return {sum, b_.add(lost, tail)};
}

/// 2^(high + low) for a sum in [-252, 254] (in F64, [-2044, 2046]).
Val FloatMath::exp2_pair(Val high, Val low) {
  const Rounded n = round_small(b_.add(high, low));
  const Val f = b_.add(b_.sub(high, n.number), low);
  return scaled(b_.add(c(1), b_.mul(f, polynomial(f, f_.exp2))), n.integer);
}

Val FloatMath::constant_power(Val x, double y) {
  const Val square = b_.mul(x, x);
  if (y == 0) return c(1);
  if (y == 1) return x;
  if (y == 2) return square;
  if (y == 3) return b_.mul(square, x);
  if (y == 4) return b_.mul(square, square);
  if (y == -1) return b_.div(c(1), x);
  if (y == -2) return b_.div(c(1), square);
  if (y == 0.5) return b_.select(b_.eq(bits(x), u(minus_zero_bits() + inf_bits())), inf(), sqrt(x));
  return {};
}

Val FloatMath::pow(Val x, Val y) {
  if (const auto known = b_.as_const_float(y)) {
    if (const Val simple = constant_power(x, *known)) return simple;
  }
  const Pair l = log2_pair(real(abs_bits(x)));
  // Limiting the exponent keeps the products finite.
  const Val huge = c(f_.huge_power);
  const Val limited = op(ScalarOp::MinNum, op(ScalarOp::MaxNum, y, neg(huge)), huge);
  const Val l_high = upper(b_.add(l.high, l.low));
  const Val l_low = b_.add(b_.sub(l.high, l_high), l.low);
  const Val y_high = upper(limited);
  const Val product = b_.mul(y_high, l_high);
  const Val tail = b_.add(b_.mul(b_.sub(limited, y_high), l_high), b_.mul(limited, l_low));
  const Val limit = c(f_.exponent_limit);
  const Val high = op(ScalarOp::MinNum, op(ScalarOp::MaxNum, product, neg(limit)), limit);
  const Val in_range = b_.lt(abs(product), limit);
  return pow_special(x, y, exp2_pair(high, b_.select(in_range, tail, c(0))));
}

/// Corrects r, the power of |x|, for signs, zeros, infinities and NaN.
Val FloatMath::pow_special(Val x, Val y, Val r) {
  const Val ax = abs_bits(x);
  const Val is_zero = b_.lt(ax, u(one_exponent()));
  const Val zero_or_inf = b_.logical_or(is_zero, b_.eq(ax, u(inf_bits())));
  // The sign of a subnormal exponent counts, though comparing it as a float may flush it to 0.
  const Val grows = op(ScalarOp::Xor, b_.lt(i(0), ibits(y)), is_zero);
  r = b_.select(zero_or_inf, b_.select(grows, inf(), c(0)), r);

  // A comparison as floats may flush a subnormal exponent to 0, which is a whole number.
  const Val normal = b_.ge(abs_bits(y), u(one_exponent()));
  const Val whole = b_.logical_and(normal, b_.eq(truncate(y), y));
  const Val half = b_.mul(y, c(0.5));
  const Val odd = b_.logical_and(whole, op(ScalarOp::NotEqual, truncate(half), half));
  const Val negative = b_.lt(ibits(x), i(0));
  r = b_.select(b_.logical_and(negative, odd), neg(r), r);
  const Val invalid =
      b_.logical_and(b_.logical_and(negative, b_.logical_not(whole)), b_.logical_not(zero_or_inf));
  const Val any_nan = b_.logical_or(is_nan(x), is_nan(y));
  r = b_.select(b_.logical_or(invalid, any_nan), nan(), r);
  const Val one = b_.logical_or(b_.eq(abs_bits(y), u(0)), b_.eq(bits(x), u(one_bits())));
  // A power of a positive number, which may be subnormal itself, with a subnormal exponent.
  const Val positive = b_.lt(b_.sub(bits(x), u(1)), u(inf_bits() - 1));
  const Val close_to_one = b_.logical_and(positive, b_.logical_not(normal));
  return b_.select(b_.logical_or(one, close_to_one), c(1), r);
}

Val FloatMath::fmod(Val a, Val b) {
  const Val exponent_a = exponent_bits(abs_bits(a));
  const Val exponent_b = exponent_bits(abs_bits(b));
  const Val divisor = real(abs_bits(b));
  // Long division, some bits of the quotient at a time.
  const Val gap =
      b_.convert(b_.sub(b_.bitcast(exponent_a, i_), b_.bitcast(exponent_b, i_)), Ty::I32);
  Val largest = b_.extract(gap, 0);
  for (int lane = 1; lane < t_.lanes; ++lane) largest = b_.max(largest, b_.extract(gap, lane));
  const Val steps =
      b_.add(b_.scalar_op(ScalarOp::IDiv, {b_.max(largest, b_.i32(0)), b_.i32(f_.quotient_bits)}),
             b_.i32(1));
  const int rest = b_.local("fmod_rest", t_);
  b_.local_store(rest, real(abs_bits(a)));
  b_.for_loop(b_.i32(0), steps, b_.i32(1), [&](Val) {
    const Val r = b_.local_load(rest);
    const Val e = b_.sub(exponent_bits(bits(r)), exponent_b);
    const Val shift = b_.max(b_.sub(b_.bitcast(e, i_), i(f_.quotient_bits)), i(0));
    const Val bounded = op(ScalarOp::BitAnd, shift, i(2 * f_.bias + 1));
    const Val by = real(b_.add(ibits(divisor), op(ScalarOp::ShiftLeft, bounded, i(f_.mantissa))));
    const Val by_high = upper(by);
    // The truncated quotient may be off by one. It has at most half the bits of a significand, so
    // its products are exact. Where it is too small, the rest would need a bit more than there are:
    // a factor that exceeds the error of division makes it too large instead.
    const Val factor = c(1 + std::ldexp(8.0, -f_.mantissa));
    const Val q = truncate(b_.mul(b_.div(r, by), factor));
    Val next = b_.sub(b_.sub(r, b_.mul(q, by_high)), b_.mul(q, b_.sub(by, by_high)));
    next = b_.select(b_.lt(next, c(0)), b_.add(next, by), next);
    next = b_.select(b_.ge(next, by), b_.sub(next, by), next);
    b_.local_store(rest, next);
  });
  const Val a_finite = b_.lt(abs_bits(a), u(inf_bits()));
  const Val b_number = op(ScalarOp::LessOrEqual, abs_bits(b), u(inf_bits()));
  const Val valid =
      b_.logical_and(b_.logical_and(a_finite, b_number), b_.ge(abs_bits(b), u(one_exponent())));
  const Val r = b_.select(b_.lt(abs_bits(a), abs_bits(b)), a, with_sign(b_.local_load(rest), a));
  return b_.select(valid, r, nan());
}

Val FloatMath::floor_mod(Val a, Val b) {
  const Val r = fmod(a, b);
  const Val differ = b_.lt(op(ScalarOp::BitXor, ibits(r), ibits(b)), i(0));
  const Val adjust = b_.logical_and(differ, op(ScalarOp::NotEqual, r, c(0)));
  return b_.select(adjust, b_.add(r, b), r);
}

}  // namespace reprise::kernel
