// Where stores to shared memory must become visible to what reads it asynchronously.
#pragma once

#include <set>

#include "codegen/kernel/ir/kernel.h"

namespace reprise::emit {

/// The barriers and Arrives before which an invocation may have stored to an array that boxes are
/// stored from, or that products of teams read, with no other such instruction between.
std::set<int32_t> async_fences(const kernel::Kernel& k);

}  // namespace reprise::emit
