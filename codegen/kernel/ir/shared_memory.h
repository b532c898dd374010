// How much memory shared arrays take.
#pragma once

#include "codegen/kernel/ir/kernel.h"

namespace reprise::kernel {

/// With the space up to the next array: each begins at a multiple of 16 bytes.
uint32_t shared_bytes(const SharedArray& array);

}  // namespace reprise::kernel
