#include "tests/ptx/machine/values.h"

#include <algorithm>

namespace reprise::test::ptx {

uint16_t narrow(double v, const FloatFormat& f) {
  const int places = f.digits - 1;
  const auto sign = static_cast<uint16_t>(std::signbit(v) ? 0x8000 : 0);
  const auto infinity = static_cast<uint16_t>((f.most - f.least + 2) << places);
  if (std::isnan(v)) return 0x7FFF;
  const double magnitude = std::fabs(v);
  if (magnitude == 0) return sign;
  if (std::isinf(v)) return sign | infinity;
  // In units of the last place of its binade, which is an integer once it is rounded.
  const int exponent = std::max(std::ilogb(magnitude), f.least);
  const double units = std::nearbyint(std::ldexp(magnitude, places - exponent));
  if (exponent > f.most) return sign | infinity;
  const int stored = (exponent - f.least) << places;
  return static_cast<uint16_t>(sign | std::min<int>(stored + static_cast<int>(units), infinity));
}

double widen(uint16_t bits, const FloatFormat& f) {
  const int places = f.digits - 1;
  const int exponent = (bits & 0x7FFF) >> places, fraction = bits & ((1 << places) - 1);
  double v = 0;
  if (exponent == f.most - f.least + 2) {
    v = fraction == 0 ? std::numeric_limits<double>::infinity()
                      : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    v = std::ldexp(fraction, f.least - places);
  } else {
    v = std::ldexp(fraction + (1 << places), f.least + exponent - 1 - places);
  }
  return (bits & 0x8000) != 0 ? -v : v;
}

uint64_t fitted(Type t, uint64_t bits, uint32_t width) {
  const bool has_sign = t == Type::S8 || t == Type::S16 || t == Type::S32 || t == Type::S64;
  const uint32_t unused = 64 - 8 * size_of(t), beyond = 64 - 8 * width;
  bits = has_sign ? static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused)
                  : bits << unused >> unused;
  return bits << beyond >> beyond;
}

double sum_to_odd(double a, double b) {
  const double s = a + b;
  if (!std::isfinite(s)) return s;
  const double part = s - a;
  const double error = (a - (s - part)) + (b - part);
  const auto as_bits = std::bit_cast<uint64_t>(s);
  if (error == 0 || (as_bits & 1) != 0) return s;
  // The true sum lies between s and its neighbour on the side of the error; one of them is odd.
  return std::nextafter(s, error > 0 ? HUGE_VAL : -HUGE_VAL);
}

}  // namespace reprise::test::ptx
