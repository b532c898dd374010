// Batched matrix multiplications, shared by MatMul, the quantised operators and attention.
#pragma once

#include "runtime/host/gemm.h"

namespace reprise::host {

struct MatMulShape {
  Dims batch;                 // broadcast batch dims
  Dims a_strides, b_strides;  // per batch dim, in elements
  Dims out;                   // dims of the result; 1-D operands have no dim in it
  int64_t m = 0, n = 0, k = 0;
};
/// numpy.matmul's shape rules.
Result<MatMulShape> matmul_shape(const Dims& a, const Dims& b);

/// Zero points of the rows of A and of the columns of B: none, one, or one per row or column.
struct ZeroPoints {
  std::span<const double> a, b;
};
/// store() receives rows that are counted over all batches.
void batched_gemm(const HostTensor& a, const HostTensor& b, const MatMulShape& s,
                  const ZeroPoints& zero, const StoreRow& store);

}  // namespace reprise::host
