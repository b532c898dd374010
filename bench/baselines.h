// Baseline kernels for the compiler's results.
#pragma once

#include "bench/harness.h"
#include "runtime/facts/device_facts.h"

namespace reprise::bench {

/// y[i] = x[i] for `count` floats (a multiple of 32 * 64), in the fastest form for the device: an
/// invocation copies consecutive floats on CPU-type devices, and neighbouring invocations copy
/// neighbouring floats on GPUs.
Result<ChainSpec> copy(int64_t count, const DeviceFacts& facts);

/// y[n, n] = a[n, n] b[n, n] with one output element per invocation; n must be a multiple of 8.
Result<kernel::Kernel> naive_matmul_kernel(int64_t n);

/// y[i] = x[i] + 1 for i < 64: a launch with almost no work.
Result<kernel::Kernel> tiny_kernel();

}  // namespace reprise::bench
