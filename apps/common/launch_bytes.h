// The memory traffic of launches, for explain.
#pragma once

#include <cstdint>

#include "runtime/plan/plan.h"

namespace reprise::app {

/// The bytes of the distinct buffers that a launch reads or writes; -1 if a size is dynamic.
int64_t bytes_moved(const plan::Plan& p, const plan::Launch& launch, bool written);

}  // namespace reprise::app
