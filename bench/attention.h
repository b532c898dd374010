// Compares attention as one kernel and as a chain of kernels with the form that the compiler
// chooses.
#pragma once

#include "bench/harness.h"

namespace reprise::bench {

/// Compares the time of the chosen form with that of the faster form. The goal is 0.9 of its speed.
Status attention(const Request& request);

}  // namespace reprise::bench
