// The ONNX models of the cases, in memory. Their inputs have the names of the operands.
#pragma once

#include <string>

#include "bench/gpu/case.h"

namespace reprise::bench::gpu {

/// y = x w with a constant w.
std::string gemm_onnx(const GemmOp& op, const HostTensor& w);
std::string softmax_onnx(const SoftmaxOp& op, DType dtype);
/// A convolution with a constant weight.
std::string conv_onnx(const ConvOp& op, const HostTensor& w);

struct AttentionSize {
  int64_t heads = 1, rows = 1, keys = 1, size = 64;
};
/// softmax(q k^T / sqrt(size)) v, in the form that exporters write.
std::string attention_onnx(const AttentionSize& op, DType dtype);

}  // namespace reprise::bench::gpu
