// Nodes in another layout: what the pass `layout` decides on, done.
#pragma once

#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/passes/permutation.h"

namespace reprise::passes {

/// Whether the operator's attributes name axes and can be given in another order.
bool has_axes(const graph::Node& n);

/// Convolutions and pools.
bool is_window(const graph::Node& n);

/// The nodes (elementwise, has_axes(), convolutions and pools, in topological order) compute
/// [N, spatial..., C] instead of [N, C, spatial...]. Transposes stand between them and others;
/// their results keep their values and names through one, which has no reader where none needs it.
Status make_channels_last(graph::Graph& g, const std::vector<graph::Node*>& nodes);

}  // namespace reprise::passes
