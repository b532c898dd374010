// Kernels that the compiler's results are measured against.
#pragma once

#include "bench/harness.h"
#include "runtime/device_facts.h"

namespace reprise::bench {

/// y[i] = x[i] for count floats (a multiple of 32 * 64), in the form that is fastest on the device:
/// consecutive floats per invocation where invocations are CPU lanes, consecutive lanes on GPUs.
Result<ChainSpec> copy(int64_t count, const DeviceFacts& facts);

/// One output element per invocation: y[n, n] = a[n, n] b[n, n], n a multiple of 8.
Result<kernel::Kernel> naive_matmul_kernel(int64_t n);

/// y[i] = x[i] + 1 for i < 64: as little work as a launch can have.
Result<kernel::Kernel> tiny_kernel();

}  // namespace reprise::bench
