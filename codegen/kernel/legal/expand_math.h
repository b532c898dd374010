// Algorithms for rows of F32 and F64 that devices lack or compute too inexactly. Each method
// returns the replacement of one row in terms of native rows. F64 has no native exponentials and
// logarithms. tests/kernel/scalar_accuracy_test.cpp compares the results with long double, with
// native rows as inexact as Vulkan allows.
//
// Two rules. NaN and infinity are detected by their bits or propagate through arithmetic; a
// comparison could be inverted by a compiler that ignores NaN. Where a product must be exact, its
// factors have few enough bits that it is, so contraction into fma changes nothing.
#pragma once

#include <span>

#include "codegen/kernel/build/builder.h"
#include "codegen/kernel/ir/float_format.h"

namespace reprise::kernel {

class FloatMath {
 public:
  /// `b` must outlive the object; t is F32 or F64 with any number of lanes. `exact` is that of
  /// LegalizeFor, and changes nothing for F64.
  FloatMath(Builder& b, Type t, bool exact = false)
      : b_(b),
        f_(format_of(t.ty)),
        t_(t),
        u_{f_.word, t.lanes},
        i_{f_.integer, t.lanes},
        exact_(exact && !f_.wide()) {}

  /// The replacement of an expanded row.
  Val expand(ScalarOp op, std::span<const Val> args);

  /// Saturates; NaN gives 0.
  Val to_integer(Val x, Ty to);
  /// F64 as F32, rounded to odd: if it is inexact, its last bit is 1. Rounding the result again, to
  /// at most 22 bits, is then like rounding x once.
  Val to_f32_odd(Val x);

  // Conversions of F32. Those of halves are in legalize_storage.cpp and do not depend on how the
  // device rounds.
  Val to_half(Val x);
  /// A U32 as F32 (expand_elementary.cpp).
  Val of_unsigned(Val v);
  /// The nearest number that a half can hold, as F32.
  Val round_to_half(Val x);
  /// Bits of halves and bfloats, in the low 16 bits of a U32.
  Val half_bits(Val x);
  Val from_half_bits(Val h);
  Val bfloat_bits(Val x);
  Val round_to_bfloat(Val x);

 private:
  /// Adds half an ulp of a half, so that dropping the lower 13 bits rounds to nearest even.
  Val rounded_half_magnitude(Val magnitude);
  /// The part of expand() for exponentials, logarithms, roots, trigonometry and tests.
  Val elementary(ScalarOp op, Val x);
  // Special values.
  Val is_nan(Val x);
  Val is_inf(Val x);
  Val inf_or_nan(Val x);  // without those below zero
  Val sign(Val x);
  Val to_integer(ScalarOp o, Val x);
  Val truncate(Val x) {
    return f_.wide() ? to_integer(ScalarOp::Trunc, x) : b_.scalar_op(ScalarOp::Trunc, {x});
  }
  Val relu(Val x);
  Val min_max(ScalarOp native, Val a, Val b);
  Val div_rn(Val x, Val y);
  // expand_elementary.cpp
  Val sqrt(Val x);
  Val rsqrt(Val x);
  Val log(Val x, bool base_2);
  Val exp(Val x);
  Val exp2(Val x);
  Val scaled(Val x, Val n);  // x * 2^n
  struct Exponential {
    Val n;  // I32 or I64
    Val p;  // exp(x) = 2^n (1 + p)
  };
  Exponential exponential(Val x);
  Val expm1(Val x);
  Val sinh(Val x);
  Val cosh(Val x);
  struct Decomposed {
    Val exponent;  // I32 or I64
    Val fraction;  // in [sqrt(1/2), sqrt(2))
  };
  /// A positive normal number as 2^exponent * fraction.
  Decomposed decompose(Val x);
  /// exponent * log(2) + log(1 + f) + correction
  Val log_core(Val exponent, Val f, Val correction);
  /// log(1 + x) + extra * log(2) for x in [0, inf) or (-1, inf). The caller handles NaN and inf.
  Val log1p_core(Val x, Val extra);
  Val log1p(Val x);
  Val asinh(Val x);
  Val acosh(Val x);
  Val atanh(Val x);
  Val tanh(Val x);
  Val erf_complement(Val a);
  Val erf(Val x);
  /// The tail of the normal distribution beyond a, divided by exp(-a^2/2).
  Val normal_tail(Val a);
  // expand_power.cpp
  struct Pair {  // an unevaluated sum
    Val high, low;
  };
  Pair log2_pair(Val x);
  Val exp2_pair(Val high, Val low);
  Val pow(Val x, Val y);
  Val pow_special(Val x, Val y, Val r);
  Val constant_power(Val x, double y);
  Val fmod(Val a, Val b);
  Val floor_mod(Val a, Val b);
  // expand_trigonometry.cpp
  struct Reduced {
    Val r;         // x - quadrant * pi/2, in [-pi/4, pi/4]
    Val quadrant;  // U32 or U64; only the last two bits are significant
  };
  Reduced reduce(Val x);
  Val reduced(Val x, Val n);
  Val reduced_exactly(Val x, Val n);
  Val sin_poly(Val r);
  Val cos_poly(Val r);
  Val sin_cos(Val x, bool cosine);
  Val tan(Val x);
  Val asin_poly(Val x);
  Val asin(Val x);
  Val acos(Val x);
  Val atan(Val x);
  // expand_activation.cpp
  Val softplus(Val x);
  Val gelu(Val x);
  Val gelu_tanh(Val x);
  Val hard_swish(Val x);
  Val mish(Val x);

  // Abbreviations for instructions.
  Val c(double v) { return b_.constant(t_, v); }
  Val u(uint64_t v) { return b_.constant_bits(u_, v); }
  Val i(int64_t v) {
    return b_.constant_bits(i_, static_cast<uint64_t>(v) & (2 * minus_zero_bits() - 1));
  }
  Val number(uint64_t bits) { return b_.constant_bits(t_, bits); }
  // Bits of numbers: infinity, 1, the smallest normal number, and -0.
  uint64_t inf_bits() const { return one_exponent() * (2 * static_cast<uint64_t>(f_.bias) + 1); }
  uint64_t one_bits() const { return one_exponent() * static_cast<uint64_t>(f_.bias); }
  uint64_t one_exponent() const { return uint64_t{1} << static_cast<unsigned>(f_.mantissa); }
  uint64_t minus_zero_bits() const {
    return one_exponent() * (2 * static_cast<uint64_t>(f_.bias) + 2);
  }
  Val nan() { return number(inf_bits() + one_exponent() / 2); }
  Val inf() { return number(inf_bits()); }
  Val bits(Val x) { return b_.bitcast(x, u_); }
  Val ibits(Val x) { return b_.bitcast(x, i_); }
  Val real(Val bits) { return b_.bitcast(bits, t_); }
  Val abs_bits(Val x) { return op(ScalarOp::BitAnd, bits(x), u(minus_zero_bits() - 1)); }
  Val sign_bit(Val x) { return op(ScalarOp::BitAnd, bits(x), u(minus_zero_bits())); }
  Val abs(Val x) { return b_.scalar_op(ScalarOp::Abs, {x}); }
  Val neg(Val x) { return b_.scalar_op(ScalarOp::Neg, {x}); }
  /// x * y + z, rounded once on exact targets.
  Val mul_add(Val x, Val y, Val z) {
    if (exact_) return b_.scalar_op(ScalarOp::FusedFma, {x, y, z});
    return b_.add(b_.mul(x, y), z);
  }
  Val op(ScalarOp o, Val a, Val b) { return b_.scalar_op(o, {a, b}); }
  Val gt(Val a, Val b) { return op(ScalarOp::Greater, a, b); }
  Val with_sign(Val magnitude, Val sign_of) {
    return real(op(ScalarOp::BitOr, bits(magnitude), sign_bit(sign_of)));
  }
  /// NaN if x is NaN (by its bits), else r.
  Val keep_nan(Val x, Val r) { return b_.select(is_nan(x), x, r); }
  /// The same for an r in which the exponential of x propagates, as that of exact targets does.
  Val keep_nan_of_exp(Val x, Val r) { return exact_ ? r : keep_nan(x, r); }
  /// coefficients[0] + z * (coefficients[1] + ...)
  Val polynomial(Val z, std::span<const double> coefficients);
  /// The upper half of the significand.
  Val upper(Val x) { return real(op(ScalarOp::BitAnd, bits(x), u(f_.upper_mask))); }
  /// The biased exponent of a number without a sign.
  Val exponent_bits(Val magnitude) {
    return op(ScalarOp::ShiftRight, magnitude, u(static_cast<uint64_t>(f_.mantissa)));
  }
  struct Rounded {
    Val number;   // the nearest integer, as a float
    Val integer;  // the same as I32 or I64
  };
  /// For |x| < 2^22, or 2^51 in F64. For larger x and NaN, `integer` is arbitrary.
  Rounded round_small(Val x);
  /// 2^n for exponents n of normal numbers; the next power is infinity.
  Val power_of_two(Val n);

  Builder& b_;
  const FloatFormat& f_;
  Type t_, u_, i_;
  bool exact_;
};

}  // namespace reprise::kernel
