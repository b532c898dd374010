// Creates nodes in core form for passes. Returned nodes have no inputs and outputs yet.
#pragma once

#include <vector>

#include "codegen/graph/graph.h"

namespace reprise::ops {

graph::NodeSpec reshape_node(Shape to);
graph::NodeSpec transpose_node(std::vector<int64_t> perm);
graph::NodeSpec cast_node(DType to);
/// With steps of 1. The sizes are those of the result.
graph::NodeSpec slice_node(std::vector<Expr> starts);
graph::NodeSpec concat_node(int64_t axis);
graph::NodeSpec sum_node();
/// The rows that a run appends to the growing state of this number, and all rows afterwards.
graph::NodeSpec state_append_node(int64_t state);
graph::NodeSpec state_rows_node(int64_t state);

/// Turns a node for which OpDef::is_reshape holds into a Reshape.
void become_reshape(const graph::Graph& g, graph::Node& n);
/// Turns a node with one output, whose contents are known, into a ShapeValue.
void become_shape_value(graph::Graph& g, graph::Node& n);

}  // namespace reprise::ops
