// F32 algorithms for rows that devices lack or compute too inexactly. Each method returns the
// replacement of one row in terms of native rows. tests/kernel/scalar_accuracy_test.cpp compares
// them with long double, with native rows as inexact as Vulkan allows.
//
// Two rules. NaN and infinity are detected by their bits or propagate through arithmetic; a
// comparison could be inverted by a compiler that ignores NaN. Where a product must be exact, its
// factors have few enough bits that it is, so contraction into fma changes nothing.
#pragma once

#include <span>

#include "codegen/kernel/builder.h"

namespace reprise::kernel {

class Float32Math {
 public:
  /// `b` must outlive the object; t is F32 with any number of lanes.
  Float32Math(Builder& b, Type t) : b_(b), t_(t), u_{Ty::U32, t.lanes}, i_{Ty::I32, t.lanes} {}

  /// The replacement of an expanded F32 row.
  Val expand(ScalarOp op, std::span<const Val> args);

  // Conversions. Those of halves are in legalize_storage.cpp and do not depend on how the device
  // rounds.

  /// Saturates; NaN gives 0.
  Val to_integer(Val x, Ty to);
  Val to_half(Val x);
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
  Val sign(Val x);
  Val relu(Val x);
  Val min_max(ScalarOp native, Val a, Val b);
  // expand_elementary.cpp
  Val sqrt(Val x);
  Val rsqrt(Val x);
  Val log(ScalarOp native, Val x);
  struct Exponential {
    Val n;  // I32
    Val p;  // exp(x) = 2^n (1 + p)
  };
  Exponential exponential(Val x);
  Val expm1(Val x);
  Val sinh(Val x);
  Val cosh(Val x);
  /// log(1 + x) + extra * log(2) for x in [0, inf) or (-1, inf). The caller handles NaN and inf.
  Val log1p_core(Val x, Val extra);
  Val log1p(Val x);
  Val asinh(Val x);
  Val acosh(Val x);
  Val atanh(Val x);
  Val tanh(Val x);
  Val erf(Val x);
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
    Val quadrant;  // U32; only the last two bits are significant
  };
  Reduced reduce(Val x);
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
  Val u(uint32_t v) { return b_.constant_bits(u_, v); }
  Val i(int32_t v) { return b_.constant_bits(i_, static_cast<uint32_t>(v)); }
  Val number(uint32_t bits) { return b_.constant_bits(t_, bits); }
  Val nan() { return number(0x7fc00000U); }
  Val inf() { return number(0x7f800000U); }
  Val bits(Val x) { return b_.bitcast(x, u_); }
  Val ibits(Val x) { return b_.bitcast(x, i_); }
  Val real(Val bits) { return b_.bitcast(bits, t_); }
  Val abs_bits(Val x) { return op(ScalarOp::BitAnd, bits(x), u(0x7fffffffU)); }
  Val sign_bit(Val x) { return op(ScalarOp::BitAnd, bits(x), u(0x80000000U)); }
  Val abs(Val x) { return b_.scalar_op(ScalarOp::Abs, {x}); }
  Val neg(Val x) { return b_.scalar_op(ScalarOp::Neg, {x}); }
  Val op(ScalarOp o, Val a, Val b) { return b_.scalar_op(o, {a, b}); }
  Val gt(Val a, Val b) { return op(ScalarOp::Greater, a, b); }
  Val with_sign(Val magnitude, Val sign_of) {
    return real(op(ScalarOp::BitOr, bits(magnitude), sign_bit(sign_of)));
  }
  /// NaN if x is NaN (by its bits), else r.
  Val keep_nan(Val x, Val r) { return b_.select(is_nan(x), x, r); }
  /// coefficients[0] + z * (coefficients[1] + ...)
  Val polynomial(Val z, std::initializer_list<double> coefficients);
  /// The upper 12 bits of the significand.
  Val upper(Val x) { return real(op(ScalarOp::BitAnd, bits(x), u(0xfffff000U))); }
  struct Rounded {
    Val number;   // the nearest integer, as F32
    Val integer;  // the same as I32
  };
  /// For |x| < 2^22. For larger x and NaN, `integer` is arbitrary.
  Rounded round_small(Val x);
  /// 2^n for n in [-126, 128]; 2^128 is infinity.
  Val power_of_two(Val n);

  Builder& b_;
  Type t_, u_, i_;
};

}  // namespace reprise::kernel
