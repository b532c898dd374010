// The imported graph of a compiled package.
#pragma once

#include <memory>

#include "codegen/graph/graph.h"
#include "runtime/package/package.h"

namespace reprise::app {

/// A package carries its model as the plan of the host reference. What the compiler knew of sizes
/// is inferred again.
Result<std::unique_ptr<graph::Graph>> graph_of(const package::Package& package);

}  // namespace reprise::app
