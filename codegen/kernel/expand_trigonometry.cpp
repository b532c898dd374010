// Circular functions and their inverses.
#include <array>

#include "codegen/kernel/expand_math.h"

namespace reprise::kernel {

/// From this magnitude on, where neighbouring floats are half a radian apart, r is NaN. An exact
/// reduction (Payne and Hanek) takes 70 operations more. Devices that execute both sides of a
/// branch always pay for them: a kernel of Sin takes 1.4 times as long on lavapipe, and 10 times on
/// SwiftShader.
constexpr uint32_t kLargestBits = 0x4a800000U;  // 2^22

Float32Math::Reduced Float32Math::reduce(Val x) {
  const Rounded rounded = round_small(b_.mul(x, c(0.63661977236758134)));
  const Val n = rounded.number;
  // n = n_high + n_low with 12 bits each, pi/2 in pieces of 12 bits: all products are exact, and so
  // are the differences, while they cancel.
  const Val shift = c(0x1.8p34);
  const Val n_high = b_.sub(b_.add(n, shift), shift);
  const Val n_low = b_.sub(n, n_high);
  constexpr std::array kPieces = {0x1.92p0, 0x1.fb4p-12, 0x1.444p-24, 0x1.68cp-39};
  constexpr double kTail = 0x1.1a6264p-54;
  Val r = x;
  for (double piece : kPieces) {
    r = b_.sub(r, b_.mul(n_high, c(piece)));
    r = b_.sub(r, b_.mul(n_low, c(piece)));
  }
  r = b_.sub(r, b_.mul(n, c(kTail)));
  const Val out = b_.lt(b_.sub(abs_bits(x), u(kLargestBits)), u(0x7f800000U - kLargestBits));
  return {b_.select(out, nan(), r), b_.bitcast(rounded.integer, u_)};
}

Val Float32Math::sin_poly(Val r) {
  const Val z = b_.mul(r, r);
  const Val p = polynomial(z, {-0.166666538, 0.008332083, -0.000195043176});
  return b_.add(r, b_.mul(b_.mul(r, z), p));
}

Val Float32Math::cos_poly(Val r) {
  const Val z = b_.mul(r, r);
  const Val p = polynomial(z, {0.0416666456, -0.00138872431, 2.44238854e-05});
  return b_.add(b_.sub(c(1), b_.mul(c(0.5), z)), b_.mul(b_.mul(z, z), p));
}

Val Float32Math::sin_cos(Val x, bool cosine) {
  const Reduced v = reduce(x);
  const Val quadrant = cosine ? b_.add(v.quadrant, u(1)) : v.quadrant;
  const Val odd = op(ScalarOp::NotEqual, op(ScalarOp::BitAnd, quadrant, u(1)), u(0));
  const Val r = b_.select(odd, cos_poly(v.r), sin_poly(v.r));
  const Val flip = op(ScalarOp::ShiftLeft, op(ScalarOp::BitAnd, quadrant, u(2)), u(30));
  return real(op(ScalarOp::BitXor, bits(r), flip));
}

Val Float32Math::tan(Val x) {
  const Reduced v = reduce(x);
  const Val odd = op(ScalarOp::NotEqual, op(ScalarOp::BitAnd, v.quadrant, u(1)), u(0));
  const Val sine = sin_poly(v.r);
  const Val cosine = cos_poly(v.r);
  return b_.div(b_.select(odd, neg(cosine), sine), b_.select(odd, sine, cosine));
}

Val Float32Math::asin_poly(Val x) {
  const Val z = b_.mul(x, x);
  const Val p =
      polynomial(z, {0.166667536, 0.0749524161, 0.0454770997, 0.0241476037, 0.0422185622});
  return b_.add(x, b_.mul(b_.mul(x, z), p));
}

Val Float32Math::asin(Val x) {
  // Above 1/2: pi/2 - 2 asin(sqrt((1 - a) / 2))
  const Val a = abs(x);
  const Val large = gt(a, c(0.5));
  const Val half = op(ScalarOp::MaxNum, b_.mul(c(0.5), b_.sub(c(1), a)), c(0));
  const Val p = asin_poly(b_.select(large, b_.scalar_op(ScalarOp::SqrtNative, {half}), a));
  const Val r = b_.select(large, b_.sub(c(1.5707963267948966), b_.add(p, p)), p);
  return b_.select(gt(abs_bits(x), u(0x3f800000U)), nan(), with_sign(r, x));
}

Val Float32Math::acos(Val x) {
  const Val a = abs(x);
  const Val large = gt(a, c(0.5));
  const Val half = op(ScalarOp::MaxNum, b_.mul(c(0.5), b_.sub(c(1), a)), c(0));
  const Val p = asin_poly(b_.select(large, b_.scalar_op(ScalarOp::SqrtNative, {half}), x));
  const Val twice = b_.add(p, p);
  const Val negative = b_.lt(x, c(0));
  const Val outer = b_.select(negative, b_.sub(c(3.1415926535897931), twice), twice);
  // pi/2 = high + low keeps the low bits of asin.
  const Val inner = b_.sub(c(0x1.921fb6p0), b_.add(p, c(0x1.777a5cp-25)));
  return b_.select(gt(abs_bits(x), u(0x3f800000U)), nan(), b_.select(large, outer, inner));
}

Val Float32Math::atan(Val x) {
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
  const Val p = polynomial(z, {-0.333329529, 0.19977808, -0.138784528, 0.0805544332});
  const Val r = b_.add(offset, b_.add(t, b_.mul(b_.mul(t, z), p)));
  return with_sign(r, x);
}

}  // namespace reprise::kernel
