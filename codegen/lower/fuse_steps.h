// The steps of fusion; fuse.cpp says in which order.
#pragma once

#include "codegen/lower/partition.h"

namespace reprise::lower {

/// Adds a region that begins as `seed`, whose nodes are free; with `enabled`, it takes in what
/// follows them as far as it can.
void add_region(Partition& p, Group seed, bool enabled);
/// Gives every node that is still free its kernels; with `enabled`, those of others where that is
/// cheap.
void place_injective_nodes(Partition& p, bool enabled);

}  // namespace reprise::lower
