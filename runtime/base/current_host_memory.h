// For code that passes a thread's HostMemoryScope on to another library.
#pragma once

#include "runtime/base/host_memory.h"

namespace reprise {

/// The memory of the innermost scope of this thread.
HostMemoryPtr current_host_memory();

}  // namespace reprise
