// Groups that lowering cannot tell apart: the equal layers of a model are lowered once.
#pragma once

#include <string>
#include <vector>

#include "codegen/lower/group.h"

namespace reprise::lower {

/// What lowering reads of a group, as bytes. Groups of one graph with equal keys have equal kernels
/// for the same target.
struct GroupKey {
  std::string bytes;
  /// The graph's values that the bytes speak of, in the order of their first mention. Values at the
  /// same place have the same part in groups with equal keys.
  std::vector<graph::ValueId> values;
};

GroupKey key_of(const graph::Graph& g, const Group& group);

}  // namespace reprise::lower
