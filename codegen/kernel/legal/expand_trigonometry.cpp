// Circular functions and their inverses.
#include <array>

#include "codegen/kernel/legal/expand_math.h"

namespace reprise::kernel {

/// From the largest angle on, where neighbouring floats are half a radian apart, r is NaN. An exact
/// reduction (Payne and Hanek) takes 70 operations more. Devices that execute both sides of a
/// branch always pay for them: a kernel of Sin takes 1.4 times as long on lavapipe, and 10 times on
/// SwiftShader.
FloatMath::Reduced FloatMath::reduce(Val x) {
  const Rounded rounded = round_small(b_.mul(x, c(0.63661977236758134)));
  const Val n = rounded.number;
  const Val r = exact_ ? reduced_exactly(x, n) : reduced(x, n);
  const Val out = b_.lt(b_.sub(abs_bits(x), u(f_.largest_angle)), u(inf_bits() - f_.largest_angle));
  return {b_.select(out, nan(), r), b_.bitcast(rounded.integer, u_)};
}

/// x - n pi/2. The first difference is exact, and each fused one rounds a remainder that is small.
Val FloatMath::reduced_exactly(Val x, Val n) {
  constexpr std::array kHalfPi = {0x1.921fb6p0, -0x1.777a5cp-25, -0x1.ee59dap-50};
  Val r = x;
  for (const double piece : kHalfPi) r = mul_add(n, c(-piece), r);
  return r;
}

Val FloatMath::reduced(Val x, Val n) {
  // n = n_high + n_low with half the bits each, pi/2 in pieces with half the bits: all products are
  // exact, and so are the differences, while they cancel.
  const Val shift = c(f_.split);
  const Val n_high = b_.sub(b_.add(n, shift), shift);
  const Val n_low = b_.sub(n, n_high);
  Val r = x;
  for (double piece : f_.half_pi) {
    r = b_.sub(r, b_.mul(n_high, c(piece)));
    r = b_.sub(r, b_.mul(n_low, c(piece)));
  }
  return b_.sub(r, b_.mul(n, c(f_.half_pi_tail)));
}

Val FloatMath::sin_poly(Val r) {
  const Val z = b_.mul(r, r);
  const Val p = polynomial(z, f_.sin);
  return mul_add(b_.mul(r, z), p, r);
}

Val FloatMath::cos_poly(Val r) {
  const Val z = b_.mul(r, r);
  const Val p = polynomial(z, f_.cos);
  return mul_add(b_.mul(z, z), p, b_.sub(c(1), b_.mul(c(0.5), z)));
}

Val FloatMath::sin_cos(Val x, bool cosine) {
  const Reduced v = reduce(x);
  const Val quadrant = cosine ? b_.add(v.quadrant, u(1)) : v.quadrant;
  const Val odd = op(ScalarOp::NotEqual, op(ScalarOp::BitAnd, quadrant, u(1)), u(0));
  const Val r = b_.select(odd, cos_poly(v.r), sin_poly(v.r));
  const Val flip =
      op(ScalarOp::ShiftLeft, op(ScalarOp::BitAnd, quadrant, u(2)), u(f_.wide() ? 62 : 30));
  return real(op(ScalarOp::BitXor, bits(r), flip));
}

Val FloatMath::tan(Val x) {
  const Reduced v = reduce(x);
  const Val odd = op(ScalarOp::NotEqual, op(ScalarOp::BitAnd, v.quadrant, u(1)), u(0));
  const Val sine = sin_poly(v.r);
  const Val cosine = cos_poly(v.r);
  return b_.div(b_.select(odd, neg(cosine), sine), b_.select(odd, sine, cosine));
}

Val FloatMath::asin_poly(Val x) {
  const Val z = b_.mul(x, x);
  const Val p = polynomial(z, f_.asin);
  return b_.add(x, b_.mul(b_.mul(x, z), p));
}

Val FloatMath::asin(Val x) {
  // Above 1/2: pi/2 - 2 asin(sqrt((1 - a) / 2))
  const Val a = abs(x);
  const Val large = gt(a, c(0.5));
  const Val half = op(ScalarOp::MaxNum, b_.mul(c(0.5), b_.sub(c(1), a)), c(0));
  const Val p = asin_poly(b_.select(large, b_.scalar_op(ScalarOp::SqrtNative, {half}), a));
  const Val r = b_.select(large, b_.sub(c(1.5707963267948966), b_.add(p, p)), p);
  return b_.select(gt(abs_bits(x), u(one_bits())), nan(), with_sign(r, x));
}

Val FloatMath::acos(Val x) {
  const Val a = abs(x);
  const Val large = gt(a, c(0.5));
  const Val half = op(ScalarOp::MaxNum, b_.mul(c(0.5), b_.sub(c(1), a)), c(0));
  const Val p = asin_poly(b_.select(large, b_.scalar_op(ScalarOp::SqrtNative, {half}), x));
  const Val twice = b_.add(p, p);
  const Val negative = b_.lt(x, c(0));
  const Val outer = b_.select(negative, b_.sub(c(3.1415926535897931), twice), twice);
  // pi/2 = high + low keeps the low bits of asin.
  const Val inner = b_.sub(c(f_.half_pi_high), b_.sub(p, c(f_.half_pi_low)));
  return b_.select(gt(abs_bits(x), u(one_bits())), nan(), b_.select(large, outer, inner));
}

Val FloatMath::atan(Val x) {
  // atan(a) = offset + atan(t): t = a, (a - 1) / (a + 1) or -1 / a
  const Val a = abs(x);
  const Val middle = gt(a, c(0.4142135623730950));
  const Val large = gt(a, c(2.414213562373095));
  const Val one = c(1);
  Val top = b_.select(middle, b_.sub(a, one), a);
  Val bottom = b_.select(middle, b_.add(a, one), one);
  top = b_.select(large, c(-1), top);
  bottom = b_.select(large, a, bottom);
  const Val offset =
      b_.select(large, c(1.5707963267948966), b_.select(middle, c(0.78539816339744828), c(0)));
  const Val t = b_.div(top, bottom);
  const Val z = b_.mul(t, t);
  const Val p = polynomial(z, f_.atan);
  const Val r = b_.add(offset, b_.add(t, b_.mul(b_.mul(t, z), p)));
  return with_sign(r, x);
}

}  // namespace reprise::kernel
