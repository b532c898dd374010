// Batched matrix products, shared by MatMul, its quantised forms and attention.
#pragma once

#include "runtime/host/gemm.h"

namespace reprise::host {

struct MatMulShape {
  Dims batch;                 // broadcast batch dims
  Dims a_strides, b_strides;  // elements between matrices, over `batch`
  Dims out;                   // result's dims (1-D operands drop theirs)
  int64_t m = 0, n = 0, k = 0;
};
/// numpy.matmul's shape rules.
Result<MatMulShape> matmul_shape(const Dims& a, const Dims& b);

/// Subtracted from A's rows and B's columns; empty, one, or one per row or column.
struct ZeroPoints {
  std::span<const double> a, b;
};
/// store() receives rows counted over all batches.
void batched_gemm(const HostTensor& a, const HostTensor& b, const MatMulShape& s,
                  const ZeroPoints& zero, const StoreRow& store);

}  // namespace reprise::host
