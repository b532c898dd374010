// Nodes in another layout: what the pass `layout` decides on, done.
#pragma once

#include <span>
#include <vector>

#include "codegen/graph/graph.h"

namespace reprise::passes {

/// The operands that have the layout of the result.
std::span<const graph::ValueId> carried(const graph::Node& n);

/// The nodes (of any LayoutRole but Fixed and Permutation, in topological order) compute
/// [N, spatial..., C] instead of [N, C, spatial...]. Transposes stand between them and others;
/// their results keep their values and names through one, which has no reader where none needs it.
Status make_channels_last(graph::Graph& g, const std::vector<graph::Node*>& nodes);

}  // namespace reprise::passes
