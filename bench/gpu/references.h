// Expected values of some output elements of the cases, computed on the host in double.
#pragma once

#include "bench/gpu/case.h"
#include "bench/gpu/models.h"

namespace reprise::bench::gpu {

/// About `wanted` of the `count` elements of the first output.
Samples sampled(int64_t count, int64_t wanted, const std::function<double(int64_t)>& value);
Samples copied(const HostTensor& x);
Samples gemm_samples(const GemmOp& op, const HostTensor& x, const HostTensor& w);
Samples softmax_samples(const SoftmaxOp& op, const HostTensor& x);
Samples conv_samples(const ConvOp& op, const HostTensor& x, const HostTensor& w);
Samples attention_samples(const AttentionSize& op, const Tensors& qkv);
/// For bench::pointwise_model over [rows, columns].
Samples pointwise_samples(int64_t columns, const HostTensor& x);
/// y = x + launches
Samples replay_samples(size_t launches, const HostTensor& x);
/// Every element of every output.
Samples whole(const Tensors& outputs);

}  // namespace reprise::bench::gpu
