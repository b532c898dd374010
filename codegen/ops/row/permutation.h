// Permutations of axes.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/expr/expr.h"

namespace reprise::ops {

using AxisPermutation = std::vector<int64_t>;

/// Whether a transpose keeps the row-major order of elements, because it only moves dims of 1.
inline bool keeps_order(const AxisPermutation& perm, const Shape& in) {
  int64_t last = -1;
  for (int64_t p : perm) {
    if (in[static_cast<size_t>(p)].is_const(1)) continue;
    if (p < last) return false;
    last = p;
  }
  return true;
}

/// Permutes a shape as a transpose does: out[d] = in[perm[d]].
template <typename T>
std::vector<T> permuted(const std::vector<T>& in, const AxisPermutation& perm) {
  std::vector<T> out;
  out.reserve(perm.size());
  for (int64_t p : perm) out.push_back(in[static_cast<size_t>(p)]);
  return out;
}

/// [N, C, spatial...] -> [N, spatial..., C]
inline AxisPermutation to_channels_last(size_t rank) {
  AxisPermutation perm{0};
  for (size_t d = 2; d < rank; ++d) perm.push_back(static_cast<int64_t>(d));
  perm.push_back(1);
  return perm;
}

/// [N, spatial..., C] -> [N, C, spatial...]
inline AxisPermutation to_channels_first(size_t rank) {
  AxisPermutation perm{0, static_cast<int64_t>(rank) - 1};
  for (size_t d = 1; d + 1 < rank; ++d) perm.push_back(static_cast<int64_t>(d));
  return perm;
}

}  // namespace reprise::ops
