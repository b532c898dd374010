// The kernels of libreprise_extras.
#pragma once

#include "runtime/host/extra_kernels.h"

namespace reprise::host {

const ExtraKernels& extra_kernels();

}  // namespace reprise::host
