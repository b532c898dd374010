// Integer division that rounds towards minus infinity, as ONNX and shape arithmetic require.
#pragma once

#include <cstdint>

namespace reprise {

/// b must not be 0, and the division must not be INT64_MIN / -1.
inline int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b != 0 && ((a < 0) != (b < 0)) ? q - 1 : q;
}
/// b must not be 0. The result has the sign of b.
inline int64_t floor_mod(int64_t a, int64_t b) {
  const int64_t r = b == -1 ? 0 : a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}

}  // namespace reprise
