// Operators that compute little, against the device's copy bandwidth.
#pragma once

#include "bench/harness.h"

namespace reprise::bench {

/// One line for each operator: bytes of its inputs and outputs over the time of a run, against a
/// copy of as many bytes.
Status bandwidth(const Request& request);

}  // namespace reprise::bench
