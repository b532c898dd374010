// Matrix multiplication with double accumulators, blocked for the cache. Products of two float32
// elements are exact in double, so their only errors are those of the sums in double and of one
// rounding of the result.
#pragma once

#include <functional>

#include "runtime/host/support.h"

namespace reprise::host {

/// A block of a matrix: minor indices [begin, begin + count), k in [k0, k0 + ks).
struct Block {
  int64_t begin, count, k0, ks;
};
/// Writes element (i, k) of a block to out[(k - k0) * out_stride + (i - begin)]; see
/// pack_strided().
using PackBlock = std::function<void(const Block& block, double* out, int64_t out_stride)>;
/// Receives columns [n, n + count) of row m of the result.
using StoreRow = std::function<void(int64_t m, int64_t n, int64_t count, const double* values)>;

/// C[m, n] = sum over k of A[m, k] * B[k, n]. Both packers deliver k-major blocks.
void gemm(int64_t m, int64_t n, int64_t k, const PackBlock& a, const PackBlock& b,
          const StoreRow& store);

/// Returns a packer for which element (i, k) is
/// t[offset + i * minor_stride + k * k_stride] - zero_points[i]. If there is only one zero point,
/// it is that of every i; if there is none, nothing is subtracted.
PackBlock pack_strided(const HostTensor& t, int64_t offset, int64_t minor_stride, int64_t k_stride,
                       std::span<const double> zero_points = {});

}  // namespace reprise::host
