// The layout of a floating-point type, and the numbers with which expand_*.cpp compute in it.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {

/// Coefficients of polynomials begin with that of the lowest power. They are close to minimax
/// (Chebyshev interpolation, computed with 50 digits); where a polynomial is only a part of the
/// result, its error is below a hundredth of the result's last place.
struct FloatFormat {
  Ty real, word, integer;
  int mantissa;            // bits of the significand that are stored
  int bias;                // of the exponent
  uint64_t sqrt_half;      // bits of sqrt(1/2)
  uint64_t upper_mask;     // keeps half of the significand, so that products are exact
  int quotient_bits;       // of a step of a long division
  double split;            // adding and subtracting it keeps the upper half of an integer
  uint64_t largest_angle;  // bits of the magnitude from which on neighbours are half a radian apart
  double large;            // from here on, 1 + x^2 is x^2 and log(1 + x) is log(x)
  double ln2_high, ln2_low;                    // n * ln2_high is exact for exponents n
  double two_over_ln2_high, two_over_ln2_low;  // 2 / ln(2); the first has half of the significand
  std::array<double, 4> half_pi;               // pieces of pi/2 with half of the significand
  double half_pi_tail;                         // what they lack
  double half_pi_high, half_pi_low;            // pi/2 in two numbers
  double exponent_limit;                       // the magnitudes of all exponents are below it
  double huge_power;  // every power beyond it but that of 1 is out of range
  // Limits of arguments, beyond which results are those at the limit.
  double expm1_least, expm1_most, exp_least, exp_most;
  double sinh_most;
  // exp(r) = 1 + r + r^2 (1/2 + r p(r)), |r| <= ln(2) / 2
  std::span<const double> exponential;
  // sinh(x) = x + x z p(z), z = x^2 <= 1
  std::span<const double> sinh;
  // log(1 + f) = f - f^2/2 + s (f^2/2 + z p(z)), s = f / (2 + f), z = s^2, 1 + f in [sqrt(1/2),
  // sqrt(2)]
  std::span<const double> logarithm;
  // log(1 + e) = 2 s + s z p(z), s = e / (2 + e), z = s^2, e in [0, 1]
  std::span<const double> logarithm_to_2;
  // log(m) = 2 s + 2 s z p(z), s and z as for `logarithm`
  std::span<const double> log2_tail;
  // 2^f = 1 + f p(f), |f| <= 1/2
  std::span<const double> exp2;
  // tanh(x) = x + x z p(z), z = x^2, |x| <= 0.6
  std::span<const double> tanh;
  // erf(x) = x + x p(z), z = x^2 <= 1
  std::span<const double> erf;
  // Normal distribution: tail(a) = exp(-a^2/2) t p(t), t = 1 / (1 + 0.3 a); in F64, p(2t - 1)
  std::span<const double> normal_tail;
  // sin(x) = x + x z p(z) and cos(x) = 1 - z/2 + z^2 p(z), z = x^2, |x| <= pi/4
  std::span<const double> sin, cos;
  // asin(x) = x + x z p(z), z = x^2 <= 1/4
  std::span<const double> asin;
  // atan(x) = x + x z p(z), z = x^2, |x| <= sqrt(2) - 1
  std::span<const double> atan;

  bool wide() const { return real == Ty::F64; }
};

/// The format of F32 or F64.
const FloatFormat& format_of(Ty t);

}  // namespace reprise::kernel
