// Kernels that differ in numbers only become one: a device compiles it once.
#pragma once

#include <string>
#include <vector>

#include "codegen/kernel/kernel.h"

namespace reprise::kernel {

/// Equal for kernels that differ in their own name alone.
std::string structure(const Kernel& k);

/// How a kernel is had from those that were kept.
struct SharedUse {
  size_t kernel = 0;  // index of the one kept
  std::vector<int32_t>
      scalars;  // values of the scalar parameters that it has beyond the original's
};

struct SharedKernels {
  std::vector<Kernel> kernels;
  std::vector<SharedUse> uses;  // parallel to what was given
};

/// Kernels that are equal but for I32 constants that only scale, offset or bound, and F32 constants
/// of scalar operations, are kept once, with those constants as scalar parameters. Divisors, small
/// trip counts, places in locals and whatever else decides what code a driver makes of a kernel
/// stay constants. The kernels must verify.
Result<SharedKernels> share(const std::vector<Kernel>& all);

}  // namespace reprise::kernel
