// Our declarations of cuBLAS and cuDNN against the toolkit's, where there is one.
#include <gtest/gtest.h>

#include <type_traits>

#include "bench/gpu/cublas_api.h"
#include "bench/gpu/cudnn_api.h"

#ifdef REPRISE_CUDA_H
#if __has_include(<cublas_v2.h>)
#define REPRISE_HAVE_CUBLAS
#include <cublas_v2.h>
#endif
#if __has_include(<cudnn.h>)
#define REPRISE_HAVE_CUDNN
#include <cudnn.h>
#endif
#endif

namespace reprise::bench::gpu {
namespace {

/// How many parameters functions have and how large each is: what a call passes.
template <typename R, typename... A>
std::vector<size_t> sizes(R (*)(A...)) {
  return {sizeof(R), sizeof(A)...};
}

#ifdef REPRISE_HAVE_CUBLAS
// cublasGemmEx has a second form in C++: this one is named by its full type.
using GemmEx = ::cublasStatus_t (*)(::cublasHandle_t, ::cublasOperation_t, ::cublasOperation_t, int,
                                    int, int, const void*, const void*, ::cudaDataType, int,
                                    const void*, ::cudaDataType, int, const void*, void*,
                                    ::cudaDataType, int, ::cublasComputeType_t, ::cublasGemmAlgo_t);
#endif

TEST(VendorHeaders, Cublas) {
#ifdef REPRISE_HAVE_CUBLAS

#define REPRISE_OURS(name, parameters) using Our_##name = cublasStatus(*) parameters;
  REPRISE_CUBLAS_SYMBOLS(REPRISE_OURS)
#undef REPRISE_OURS
  EXPECT_EQ(sizes(Our_cublasCreate_v2{}), sizes(decltype(&::cublasCreate_v2){}));
  EXPECT_EQ(sizes(Our_cublasDestroy_v2{}), sizes(decltype(&::cublasDestroy_v2){}));
  EXPECT_EQ(sizes(Our_cublasSetStream_v2{}), sizes(decltype(&::cublasSetStream_v2){}));
  EXPECT_EQ(sizes(Our_cublasGetVersion_v2{}), sizes(decltype(&::cublasGetVersion_v2){}));
  static_assert(std::is_same_v<decltype(static_cast<GemmEx>(::cublasGemmEx)), GemmEx>);
  EXPECT_EQ(sizes(Our_cublasGemmEx{}), sizes(GemmEx{}));
  EXPECT_EQ(kCublasOpN, ::CUBLAS_OP_N);
  EXPECT_EQ(kCublasGemmDefault, ::CUBLAS_GEMM_DEFAULT);
  EXPECT_EQ(kCudaR32F, ::CUDA_R_32F);
  EXPECT_EQ(kCudaR16F, ::CUDA_R_16F);
  EXPECT_EQ(kCudaR16BF, ::CUDA_R_16BF);
  EXPECT_EQ(kCublasCompute32F, ::CUBLAS_COMPUTE_32F);
  EXPECT_EQ(kCublasCompute32FFastTf32, ::CUBLAS_COMPUTE_32F_FAST_TF32);
#else
  GTEST_SKIP() << "the toolkit's cublas_v2.h is not installed";
#endif
}

TEST(VendorHeaders, Cudnn) {
#ifdef REPRISE_HAVE_CUDNN
#define REPRISE_COMPARE(name, parameters)                                                     \
  {                                                                                           \
    using Ours = cudnnStatus(*) parameters;                                                   \
    EXPECT_EQ(sizes(static_cast<decltype(&::name)>(nullptr)), sizes(Ours{nullptr})) << #name; \
  }
  REPRISE_CUDNN_SYMBOLS(REPRISE_COMPARE)
#undef REPRISE_COMPARE
  EXPECT_EQ(kCudnnFloat, ::CUDNN_DATA_FLOAT);
  EXPECT_EQ(kCudnnHalf, ::CUDNN_DATA_HALF);
  EXPECT_EQ(kCudnnBfloat16, ::CUDNN_DATA_BFLOAT16);
  EXPECT_EQ(kCudnnNchw, ::CUDNN_TENSOR_NCHW);
  EXPECT_EQ(kCudnnSoftmaxAccurate, ::CUDNN_SOFTMAX_ACCURATE);
  EXPECT_EQ(kCudnnSoftmaxModeInstance, ::CUDNN_SOFTMAX_MODE_INSTANCE);
  EXPECT_EQ(kCudnnCrossCorrelation, ::CUDNN_CROSS_CORRELATION);
  EXPECT_EQ(kCudnnDefaultMath, ::CUDNN_DEFAULT_MATH);
  EXPECT_EQ(kCudnnTensorOpMath, ::CUDNN_TENSOR_OP_MATH);
  EXPECT_EQ(kCudnnFmaMath, ::CUDNN_FMA_MATH);
  using Theirs = ::cudnnConvolutionFwdAlgoPerf_t;
  EXPECT_EQ(sizeof(CudnnForwardPerf), sizeof(Theirs));
  EXPECT_EQ(offsetof(CudnnForwardPerf, memory), offsetof(Theirs, memory));
  EXPECT_EQ(offsetof(CudnnForwardPerf, math_type), offsetof(Theirs, mathType));
#else
  GTEST_SKIP() << "the toolkit's cudnn.h is not installed";
#endif
}

}  // namespace
}  // namespace reprise::bench::gpu
