// The steps of fusion, which fuse.cpp runs in order.
#pragma once

#include "codegen/lower/fuse/partition.h"

namespace reprise::lower {

/// Adds a region that begins as `seed`, whose nodes must be free. If `enabled`, it grows through
/// consumers as far as it can.
void add_region(Partition& p, Group seed, bool enabled);
/// The numbers of elements along neighbouring axes that a reduction keeps and along those that it
/// reduces, in turn, kept ones first. Axes of size 1 count as either.
std::vector<Expr> kept_and_reduced(const Shape& shape, const std::vector<int64_t>& axes);

/// Merges row kernels that read the same values, or results of a kernel that reads these values.
void merge_rows(Partition& p);
/// Whether the kernels of AttentionGrad read or store through the node, if it is a view: heads,
/// which are tensors of rank 4, keep consecutive elements.
bool keeps_heads(const graph::Node& n);
/// Lets products compute the row kernels that only they read, where that takes less time on the
/// device.
void inline_rows(Partition& p, const shaders::TargetFacts& device);
/// Places every node that is still free: if `enabled`, in the kernels of its users where that is
/// cheap, else in a kernel of its own.
void place_injective_nodes(Partition& p, bool enabled);

}  // namespace reprise::lower
