// The inner loop of GEMMs.
#pragma once

#include <cstdint>
#include <cstring>

namespace reprise::host {

/// Element (i, k) is values[i * row_stride + k * k_stride].
struct TileRows {
  const double* values;
  int64_t row_stride, k_stride;
};

/// sums[i][j] = sum over k < depth of a(i, k) * b[k * C + j], with the sums in registers. Inlined,
/// so that callers' strides are constants in the loop.
template <int64_t R, int64_t C>
[[gnu::always_inline]] inline void multiply_tile(const TileRows& a, const double* __restrict b,
                                                 int64_t depth, double* sums) {
  // Compilers keep arrays of numbers in memory unless they unroll all loops over them.
  using Pair = double __attribute__((vector_size(16)));
  static_assert(C % 2 == 0 && C <= 8 && R <= 4);
  const double* __restrict rows = a.values;
  Pair acc[R][C / 2] = {};
  for (int64_t k = 0; k < depth; ++k) {
    Pair right[C / 2];
#pragma GCC unroll 4
    for (int64_t j = 0; j < C / 2; ++j) std::memcpy(&right[j], b + k * C + 2 * j, sizeof(Pair));
#pragma GCC unroll 4
    for (int64_t i = 0; i < R; ++i) {
      const double v = rows[i * a.row_stride + k * a.k_stride];
#pragma GCC unroll 4
      for (int64_t j = 0; j < C / 2; ++j) acc[i][j] += Pair{v, v} * right[j];
    }
  }
  std::memcpy(sums, acc, sizeof acc);
}

}  // namespace reprise::host
