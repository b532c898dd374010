// Attention as one kernel and as the chain of kernels, against what the compiler chooses.
#pragma once

#include "bench/harness.h"

namespace reprise::bench {

/// The choice's time against the better form's; 0.9 of its speed is wanted.
Status attention(const Request& request);

}  // namespace reprise::bench
