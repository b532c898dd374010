// The steps of fusion, which fuse.cpp runs in order.
#pragma once

#include "codegen/lower/partition.h"

namespace reprise::lower {

/// Adds a region that begins as `seed`, whose nodes must be free. If `enabled`, it grows through
/// consumers as far as it can.
void add_region(Partition& p, Group seed, bool enabled);
/// Places every node that is still free: if `enabled`, in the kernels of its users where that is
/// cheap, else in a kernel of its own.
void place_injective_nodes(Partition& p, bool enabled);

}  // namespace reprise::lower
