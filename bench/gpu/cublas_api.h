// The part of cuBLAS that the bench uses, as its documentation declares it (version 12 and later).
// A test compares this with <cublas_v2.h> if there is one.
#pragma once

#include <cstddef>

#include "backends/cuda/api.h"

namespace reprise::bench::gpu {

using cublasHandle_t = struct cublasContext*;
using cublasStatus = int;  // 0: success

inline constexpr int kCublasOpN = 0;
inline constexpr int kCublasGemmDefault = -1;
// cudaDataType
inline constexpr int kCudaR32F = 0, kCudaR16F = 2, kCudaR16BF = 14;
// cublasComputeType_t
inline constexpr int kCublasCompute32F = 68, kCublasCompute32FFastTf32 = 77;

#define REPRISE_CUBLAS_SYMBOLS(F)                                                              \
  F(cublasCreate_v2, (cublasHandle_t * handle))                                                \
  F(cublasDestroy_v2, (cublasHandle_t handle))                                                 \
  F(cublasSetStream_v2, (cublasHandle_t handle, cuda::CUstream stream))                        \
  F(cublasGetVersion_v2, (cublasHandle_t handle, int* version))                                \
  F(cublasGemmEx,                                                                              \
    (cublasHandle_t handle, int transa, int transb, int m, int n, int k, const void* alpha,    \
     const void* a, int a_type, int lda, const void* b, int b_type, int ldb, const void* beta, \
     void* c, int c_type, int ldc, int compute_type, int algorithm))

}  // namespace reprise::bench::gpu
