// States that grow: caches that each run reads, and to which it appends rows.
#pragma once

#include <cstdint>

#include "codegen/graph/graph.h"

namespace reprise::passes {

/// An input that is a state, and the output that is the state and new rows behind it.
struct GrowingState {
  size_t input = 0, output = 0;  // of the graph
  int32_t axis = 0;              // of the rows
};

/// The core node that puts rows behind the graph's input `v` to make the output `o`; null if none
/// does. Nodes between them that change nothing are passed over.
graph::Node* appending_node(const graph::Graph& g, graph::ValueId v, graph::ValueId o);
/// The input of the graph behind which a node puts rows to make the output `o`, or kNone.
graph::ValueId grown_input(const graph::Graph& g, graph::ValueId o);

}  // namespace reprise::passes
