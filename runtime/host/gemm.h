// Matrix product with double accumulators, blocked for the cache. Inputs of up to 32 bits make
// every product exact, so the result is off by one rounding and the accumulated double error only.
#pragma once

#include <functional>

#include "runtime/host/support.h"

namespace reprise::host {

/// Of a matrix: minor indices [begin, begin + count), k in [k0, k0 + ks).
struct Block {
  int64_t begin, count, k0, ks;
};
/// Writes element (i, k) of a block to out[(k - k0) * out_stride + (i - begin)]. See pack_strided.
using PackBlock = std::function<void(const Block& block, double* out, int64_t out_stride)>;
/// Receives row m, columns [n, n + count) of the product.
using StoreRow = std::function<void(int64_t m, int64_t n, int64_t count, const double* values)>;

/// C[m, n] = sum over k of A[m, k] * B[k, n]. Both packers deliver k-major blocks.
void gemm(int64_t m, int64_t n, int64_t k, const PackBlock& a, const PackBlock& b,
          const StoreRow& store);

/// Element (i, k) is t[offset + i * minor_stride + k * k_stride] - zero_points[i] (or [0] when
/// there is one; no subtraction when empty).
PackBlock pack_strided(const HostTensor& t, int64_t offset, int64_t minor_stride, int64_t k_stride,
                       std::span<const double> zero_points = {});

}  // namespace reprise::host
