// The part of cuDNN 9 that the bench uses, as its documentation declares it. A test compares this
// with <cudnn.h> if there is one.
#pragma once

#include <cstddef>

#include "backends/cuda/api.h"

namespace reprise::bench::gpu {

using cudnnHandle_t = struct cudnnContext*;
using cudnnTensorDescriptor_t = struct cudnnTensorStruct*;
using cudnnFilterDescriptor_t = struct cudnnFilterStruct*;
using cudnnConvolutionDescriptor_t = struct cudnnConvolutionStruct*;
using cudnnStatus = int;  // 0: success

inline constexpr int kCudnnFloat = 0, kCudnnHalf = 2, kCudnnBfloat16 = 9;
inline constexpr int kCudnnNchw = 0;
inline constexpr int kCudnnSoftmaxAccurate = 1, kCudnnSoftmaxModeInstance = 0;
inline constexpr int kCudnnCrossCorrelation = 1;
inline constexpr int kCudnnDefaultMath = 0, kCudnnTensorOpMath = 1, kCudnnFmaMath = 3;

/// cudnnConvolutionFwdAlgoPerf_t
struct CudnnForwardPerf {
  int algorithm;
  int status;
  float time;
  size_t memory;
  int determinism;
  int math_type;
  int reserved[3];
};

#define REPRISE_CUDNN_SYMBOLS(F)                                                                  \
  F(cudnnCreate, (cudnnHandle_t * handle))                                                        \
  F(cudnnDestroy, (cudnnHandle_t handle))                                                         \
  F(cudnnSetStream, (cudnnHandle_t handle, cuda::CUstream stream))                                \
  F(cudnnCreateTensorDescriptor, (cudnnTensorDescriptor_t * tensor))                              \
  F(cudnnDestroyTensorDescriptor, (cudnnTensorDescriptor_t tensor))                               \
  F(cudnnSetTensor4dDescriptor,                                                                   \
    (cudnnTensorDescriptor_t tensor, int format, int type, int n, int c, int h, int w))           \
  F(cudnnCreateFilterDescriptor, (cudnnFilterDescriptor_t * filter))                              \
  F(cudnnDestroyFilterDescriptor, (cudnnFilterDescriptor_t filter))                               \
  F(cudnnSetFilter4dDescriptor,                                                                   \
    (cudnnFilterDescriptor_t filter, int type, int format, int k, int c, int h, int w))           \
  F(cudnnCreateConvolutionDescriptor, (cudnnConvolutionDescriptor_t * conv))                      \
  F(cudnnDestroyConvolutionDescriptor, (cudnnConvolutionDescriptor_t conv))                       \
  F(cudnnSetConvolution2dDescriptor,                                                              \
    (cudnnConvolutionDescriptor_t conv, int pad_h, int pad_w, int stride_h, int stride_w,         \
     int dilation_h, int dilation_w, int mode, int compute_type))                                 \
  F(cudnnSetConvolutionMathType, (cudnnConvolutionDescriptor_t conv, int math_type))              \
  F(cudnnFindConvolutionForwardAlgorithm,                                                         \
    (cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,                  \
     cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y, int wanted, int* found,        \
     CudnnForwardPerf* results))                                                                  \
  F(cudnnConvolutionForward,                                                                      \
    (cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x, const void* x_data,      \
     cudnnFilterDescriptor_t w, const void* w_data, cudnnConvolutionDescriptor_t conv,            \
     int algorithm, void* workspace, size_t workspace_bytes, const void* beta,                    \
     cudnnTensorDescriptor_t y, void* y_data))                                                    \
  F(cudnnSoftmaxForward,                                                                          \
    (cudnnHandle_t handle, int algorithm, int mode, const void* alpha, cudnnTensorDescriptor_t x, \
     const void* x_data, const void* beta, cudnnTensorDescriptor_t y, void* y_data))

}  // namespace reprise::bench::gpu
