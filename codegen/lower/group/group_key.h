// Keys of groups. Lowering cannot distinguish groups with equal keys, so that equal layers of a
// model are lowered once.
#pragma once

#include <string>
#include <vector>

#include "codegen/lower/group/group.h"

namespace reprise::lower {

/// Everything that lowering reads of a group, as bytes. Groups of one graph with equal bytes have
/// equal kernels for the same target.
struct GroupKey {
  std::string bytes;
  /// The values that the bytes refer to, in the order of their first reference. In groups with
  /// equal bytes, values at the same position have the same role.
  std::vector<graph::ValueId> values;
};

GroupKey key_of(const graph::Graph& g, const Group& group);

}  // namespace reprise::lower
