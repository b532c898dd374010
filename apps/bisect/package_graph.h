// The imported graph of a compiled package.
#pragma once

#include <memory>

#include "codegen/graph/graph.h"
#include "runtime/package/package.h"

namespace reprise::app {

/// Rebuilds the graph from the package's host plan, and infers the sizes again.
Result<std::unique_ptr<graph::Graph>> graph_of(const package::Package& package);

}  // namespace reprise::app
