// The loops of elementwise operators: an operator has up to three, one per domain.
#pragma once

#include "runtime/host/support.h"

namespace reprise::host {

/// Attributes of an elementwise operator (alpha, beta, ...), in the row's order.
using Params = std::array<double, 2>;

template <typename T>
using UnaryLoop = void (*)(T* x, int64_t n, const Params& p);
template <typename T>
using BinaryLoop = void (*)(const T* a, const T* b, T* out, int64_t n);

/// Wraps a captureless lambda T(T) or T(T, const Params&).
template <typename T, typename F>
constexpr UnaryLoop<T> unary_loop(F) {
  return [](T* x, int64_t n, [[maybe_unused]] const Params& p) {
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_invocable_v<F, T, const Params&>) {
        x[i] = F{}(x[i], p);
      } else {
        x[i] = F{}(x[i]);
      }
    }
  };
}

/// Wraps a captureless lambda T(T, T).
template <typename T, typename F>
constexpr BinaryLoop<T> binary_loop(F) {
  return [](const T* a, const T* b, T* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = F{}(a[i], b[i]);
  };
}

}  // namespace reprise::host
