// Parameters of a kernel, as launches and graph nodes give them.
#pragma once

#include "tests/cuda_standin/driver/api.h"

namespace reprise::standin {

/// Copies the parameters; fails where a driver would.
CUresult kernel_work(Call& call, const CUDA_KERNEL_NODE_PARAMS& params, KernelWork& out);

}  // namespace reprise::standin
