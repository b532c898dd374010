// The core form of codegen/graph/semantics.md, checked.
#pragma once

#include "codegen/graph/graph.h"

namespace reprise::graph {

/// For a node with opset 0 whose dtypes and shapes are known: that the registry knows it and that
/// its attributes are those of the core form. Messages do not name the node.
Status check_core_form(const Graph& g, const Node& n);

}  // namespace reprise::graph
