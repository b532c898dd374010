// Checks the core form that codegen/graph/semantics.md defines.
#pragma once

#include "codegen/graph/graph.h"

namespace reprise::graph {

/// Checks that the registry knows the node's operator and that its attributes are in core form. The
/// node must have opset 0, and known dtypes and shapes. Messages do not name the node.
Status check_core_form(const Graph& g, const Node& n);

}  // namespace reprise::graph
