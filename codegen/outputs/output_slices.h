// What both options do with outputs of a graph.
#pragma once

#include <string>

#include "codegen/graph/graph.h"

namespace reprise {

/// The number of the output. `option` is for the message.
Result<size_t> find_output(const graph::Graph& g, const std::string& name,
                           const std::string& option);
/// Gives outputs the names that they have, so that other values can take their places.
void name_outputs(graph::Graph& g);
/// The last position along the axis, which stays with the size 1. `name`: of the output.
Result<graph::ValueId> last_position(graph::Graph& g, graph::ValueId v, size_t axis,
                                     const std::string& name);

}  // namespace reprise
