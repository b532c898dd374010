// Operators that compute little, against the device's copy bandwidth.
#pragma once

#include "bench/harness.h"

namespace reprise::bench {

/// One row for each operator: bytes of its inputs and outputs over the time of a run, against a
/// copy of as many bytes.
Result<std::vector<Row>> bandwidth(const std::shared_ptr<Device>& device, int runs);

}  // namespace reprise::bench
