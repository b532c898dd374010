// The facts of a GPU, from its driver.
#pragma once

#include "backends/cuda/library.h"

namespace reprise::cuda {

/// Never fails: DeviceInfo::reason says why a device cannot be used.
DeviceInfo query(const Library& library, int ordinal);

}  // namespace reprise::cuda
