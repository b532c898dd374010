// Merges kernels that differ only in numbers, so that a device compiles one kernel for all of them.
#pragma once

#include <string>
#include <vector>

#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {

/// A string that is equal for kernels that differ only in their name.
std::string structure(const Kernel& k);

/// How a merged kernel stands for an original one.
struct SharedUse {
  size_t kernel = 0;             // index of the merged kernel
  std::vector<int32_t> scalars;  // values of the scalar parameters that merging added
};

struct SharedKernels {
  std::vector<Kernel> kernels;
  std::vector<SharedUse> uses;  // parallel to the original kernels
};

/// Merges kernels that differ only in I32 constants that scale, offset or bound, and in F32
/// constants of scalar operations; these become scalar parameters. Divisors, small trip counts,
/// indices into locals and everything else that affects what code a driver generates remain
/// constants. The kernels must verify.
Result<SharedKernels> share(std::vector<Kernel> all);

}  // namespace reprise::kernel
