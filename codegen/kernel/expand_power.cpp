// Powers and floating-point remainders.
#include <cmath>

#include "codegen/kernel/expand_math.h"

namespace reprise::kernel {

/// log2 of a positive normal number, to about 2^-33 relative.
Float32Math::Pair Float32Math::log2_pair(Val x) {
  const Val offset = b_.sub(ibits(x), i(0x3f3504f3));
  const Val k = b_.convert(op(ScalarOp::ShiftRight, offset, i(23)), Ty::F32);
  const Val m = real(b_.add(op(ScalarOp::BitAnd, offset, i(0x007fffff)), i(0x3f3504f3)));
  // s = f / (2 + f) as s_high + s_low: s_high has 12 bits, so that its products are exact.
  const Val f = b_.sub(m, c(1));
  const Val d = b_.add(c(2), f);
  const Val s = b_.div(f, d);
  const Val s_high = upper(s);
  const Val f_high = upper(f);
  const Val rest = b_.sub(b_.sub(b_.sub(f, b_.add(s_high, s_high)), b_.mul(s_high, f_high)),
                          b_.mul(s_high, b_.sub(f, f_high)));
  const Val s_low = b_.div(rest, d);
  // log2(m) = 2/ln2 (s + s^3 R(s^2) / 2)
  constexpr double kScale = 2.8853900817779268;  // 2 / ln2
  constexpr double kScaleHigh = 0x1.715p1;
  const Val z = b_.mul(s, s);
  const Val r =
      b_.mul(polynomial(z, {0.666666627 / 2, 0.400003463 / 2, 0.285365731 / 2, 0.235969529 / 2}),
             b_.mul(s, z));
  const Val product = b_.mul(s_high, c(kScaleHigh));
  const Val tail =
      b_.add(b_.mul(s_high, c(kScale - kScaleHigh)), b_.mul(b_.add(s_low, r), c(kScale)));
  const Val sum = b_.add(k, product);
  const Val lost = b_.add(b_.sub(k, sum), product);
  return {sum, b_.add(lost, tail)};
}

/// 2^(high + low) for a sum in [-252, 254].
Val Float32Math::exp2_pair(Val high, Val low) {
  const Rounded n = round_small(b_.add(high, low));
  const Val f = b_.add(b_.sub(high, n.number), low);
  const Val p = polynomial(f, {0.693147182, 0.240226507, 0.0555041097, 0.00961803272, 0.00133334252,
                               0.000154683905, 1.53162e-05});
  // 2^n in two factors, so that neither leaves the exponent range.
  const Val half = op(ScalarOp::ShiftRight, n.integer, i(1));
  const Val scaled = b_.mul(b_.add(c(1), b_.mul(f, p)), power_of_two(half));
  return b_.mul(scaled, power_of_two(b_.sub(n.integer, half)));
}

Val Float32Math::constant_power(Val x, double y) {
  const Val square = b_.mul(x, x);
  if (y == 0) return c(1);
  if (y == 1) return x;
  if (y == 2) return square;
  if (y == 3) return b_.mul(square, x);
  if (y == 4) return b_.mul(square, square);
  if (y == -1) return b_.div(c(1), x);
  if (y == -2) return b_.div(c(1), square);
  if (y == 0.5) return b_.select(b_.eq(bits(x), u(0xff800000U)), inf(), sqrt(x));
  return {};
}

Val Float32Math::pow(Val x, Val y) {
  if (const auto known = b_.as_const_float(y)) {
    if (const Val simple = constant_power(x, *known)) return simple;
  }
  const Pair l = log2_pair(real(abs_bits(x)));
  // Beyond an exponent of 2^32, every power but that of 1 is out of range. Limiting it keeps the
  // products finite.
  const Val limited = op(ScalarOp::MinNum, op(ScalarOp::MaxNum, y, c(-0x1p32)), c(0x1p32));
  const Val l_high = upper(b_.add(l.high, l.low));
  const Val l_low = b_.add(b_.sub(l.high, l_high), l.low);
  const Val y_high = upper(limited);
  const Val product = b_.mul(y_high, l_high);
  const Val tail = b_.add(b_.mul(b_.sub(limited, y_high), l_high), b_.mul(limited, l_low));
  const Val limit = c(200);
  const Val high = op(ScalarOp::MinNum, op(ScalarOp::MaxNum, product, neg(limit)), limit);
  const Val in_range = b_.lt(abs(product), limit);
  return pow_special(x, y, exp2_pair(high, b_.select(in_range, tail, c(0))));
}

/// Corrects r, the power of |x|, for signs, zeros, infinities and NaN.
Val Float32Math::pow_special(Val x, Val y, Val r) {
  const Val ax = abs_bits(x);
  const Val is_zero = b_.lt(ax, u(0x00800000U));
  const Val zero_or_inf = b_.logical_or(is_zero, b_.eq(ax, u(0x7f800000U)));
  // The sign of a subnormal exponent counts, though comparing it as a float may flush it to 0.
  const Val grows = op(ScalarOp::Xor, b_.lt(i(0), ibits(y)), is_zero);
  r = b_.select(zero_or_inf, b_.select(grows, inf(), c(0)), r);

  // A comparison as floats may flush a subnormal exponent to 0, which is a whole number.
  const Val normal = b_.ge(abs_bits(y), u(0x00800000U));
  const Val whole = b_.logical_and(normal, b_.eq(b_.scalar_op(ScalarOp::Trunc, {y}), y));
  const Val half = b_.mul(y, c(0.5));
  const Val odd =
      b_.logical_and(whole, op(ScalarOp::NotEqual, b_.scalar_op(ScalarOp::Trunc, {half}), half));
  const Val negative = b_.lt(ibits(x), i(0));
  r = b_.select(b_.logical_and(negative, odd), neg(r), r);
  const Val invalid =
      b_.logical_and(b_.logical_and(negative, b_.logical_not(whole)), b_.logical_not(zero_or_inf));
  const Val any_nan = b_.logical_or(is_nan(x), is_nan(y));
  r = b_.select(b_.logical_or(invalid, any_nan), nan(), r);
  const Val one = b_.logical_or(b_.eq(abs_bits(y), u(0)), b_.eq(bits(x), u(0x3f800000U)));
  // A power of a positive number, which may be subnormal itself, with a subnormal exponent.
  const Val positive = b_.lt(b_.sub(bits(x), u(1)), u(0x7f7fffffU));
  const Val close_to_one = b_.logical_and(positive, b_.logical_not(normal));
  return b_.select(b_.logical_or(one, close_to_one), c(1), r);
}

Val Float32Math::fmod(Val a, Val b) {
  const Val exponent_a = op(ScalarOp::ShiftRight, abs_bits(a), u(23));
  const Val exponent_b = op(ScalarOp::ShiftRight, abs_bits(b), u(23));
  const Val divisor = real(abs_bits(b));
  // Long division, 11 bits of the quotient at a time.
  const Val gap = b_.sub(b_.bitcast(exponent_a, i_), b_.bitcast(exponent_b, i_));
  Val largest = b_.extract(gap, 0);
  for (int lane = 1; lane < t_.lanes; ++lane) largest = b_.max(largest, b_.extract(gap, lane));
  const Val steps =
      b_.add(b_.scalar_op(ScalarOp::IDiv, {b_.max(largest, b_.i32(0)), b_.i32(11)}), b_.i32(1));
  const int rest = b_.local("fmod_rest", t_);
  b_.local_store(rest, real(abs_bits(a)));
  b_.for_loop(b_.i32(0), steps, b_.i32(1), [&](Val) {
    const Val r = b_.local_load(rest);
    const Val e = b_.sub(op(ScalarOp::ShiftRight, bits(r), u(23)), exponent_b);
    const Val shift = b_.max(b_.sub(b_.bitcast(e, i_), i(11)), i(0));
    const Val by = real(b_.add(
        ibits(divisor), op(ScalarOp::ShiftLeft, op(ScalarOp::BitAnd, shift, i(0xff)), i(23))));
    const Val by_high = upper(by);
    // The truncated quotient may be off by one. It has at most 12 bits, so its products are exact.
    const Val q = b_.scalar_op(ScalarOp::Trunc, {b_.div(r, by)});
    Val next = b_.sub(b_.sub(r, b_.mul(q, by_high)), b_.mul(q, b_.sub(by, by_high)));
    next = b_.select(b_.lt(next, c(0)), b_.add(next, by), next);
    next = b_.select(b_.ge(next, by), b_.sub(next, by), next);
    b_.local_store(rest, next);
  });
  const Val a_finite = b_.lt(abs_bits(a), u(0x7f800000U));
  const Val b_number = op(ScalarOp::LessOrEqual, abs_bits(b), u(0x7f800000U));
  const Val valid =
      b_.logical_and(b_.logical_and(a_finite, b_number), b_.ge(abs_bits(b), u(0x00800000U)));
  const Val r = b_.select(b_.lt(abs_bits(a), abs_bits(b)), a, with_sign(b_.local_load(rest), a));
  return b_.select(valid, r, nan());
}

Val Float32Math::floor_mod(Val a, Val b) {
  const Val r = fmod(a, b);
  const Val differ = b_.lt(op(ScalarOp::BitXor, ibits(r), ibits(b)), i(0));
  const Val adjust = b_.logical_and(differ, op(ScalarOp::NotEqual, r, c(0)));
  return b_.select(adjust, b_.add(r, b), r);
}

}  // namespace reprise::kernel
