// Numbers of 8 bits.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace reprise::test::ptx {

/// e4m3: a bias of 7, no infinities; all ones but the sign are NaN. (e5m2 is the upper half of an
/// f16.)
inline float widen_e4m3(uint8_t bits) {
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  float v = 0;
  if ((bits & 0x7F) == 0x7F)
    v = std::numeric_limits<float>::quiet_NaN();
  else if (exponent == 0)
    v = std::ldexp(static_cast<float>(fraction), -9);
  else
    v = std::ldexp(static_cast<float>(fraction + 8), exponent - 10);
  return (bits & 0x80) != 0 ? -v : v;
}

}  // namespace reprise::test::ptx
