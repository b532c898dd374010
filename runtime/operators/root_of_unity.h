// Roots of unity, for Fourier transforms.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <numbers>

#include "runtime/base/integer_math.h"

namespace reprise {

/// e^(2 pi i turns / n). Quarters of a turn are exact, so that terms that cancel leave nothing.
inline std::complex<double> root_of_unity(int64_t turns, int64_t n) {
  const int64_t j = floor_mod(turns, n);
  constexpr std::complex<double> kQuarters[] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
  if (4 * j % n == 0) return kQuarters[4 * j / n];
  const double angle = 2 * std::numbers::pi * static_cast<double>(j) / static_cast<double>(n);
  return {std::cos(angle), std::sin(angle)};
}

}  // namespace reprise
