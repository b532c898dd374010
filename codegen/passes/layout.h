// Changes the layout of nodes, as the pass `layout` decided.
#pragma once

#include <span>
#include <vector>

#include "codegen/graph/graph.h"

namespace reprise::passes {

/// The operands that have the layout of the result.
std::span<const graph::ValueId> layout_operands(const graph::Node& n);

/// Makes the nodes compute [N, spatial..., C] instead of [N, C, spatial...]. They are in
/// topological order and of any LayoutRole but Fixed and Permutation. Transposes convert between
/// them and other nodes. One converts each result back to its old value and name; it may have no
/// readers.
Status make_channels_last(graph::Graph& g, const std::vector<graph::Node*>& nodes);

}  // namespace reprise::passes
