// Compares operators that compute little with the device's copy bandwidth.
#pragma once

#include "bench/harness.h"

namespace reprise::bench {

/// One line per operator: the bytes of its inputs and outputs divided by the time of a run, against
/// a copy of as many bytes.
Status bandwidth(const Request& request);

}  // namespace reprise::bench
