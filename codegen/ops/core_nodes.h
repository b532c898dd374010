// Nodes in core form that passes make. Those that are returned have neither inputs nor outputs yet.
#pragma once

#include <vector>

#include "codegen/graph/graph.h"

namespace reprise::ops {

graph::NodeSpec reshape_node(Shape to);
graph::NodeSpec transpose_node(std::vector<int64_t> perm);
graph::NodeSpec cast_node(DType to);

/// A node that only renames (OpDef::renames) becomes a Reshape.
void become_reshape(const graph::Graph& g, graph::Node& n);
/// A node with one output, whose contents are known, becomes a ShapeValue.
void become_shape_value(graph::Graph& g, graph::Node& n);

}  // namespace reprise::ops
