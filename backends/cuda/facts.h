// What the driver says of a GPU, as facts.
#pragma once

#include "backends/cuda/library.h"

namespace reprise::cuda {

/// Never fails: a device that cannot be used says why.
DeviceInfo query(const Library& library, int ordinal);

}  // namespace reprise::cuda
