// States of a model: inputs that sessions keep, and outputs that are their next values.
#pragma once

#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/options/compile_options.h"
#include "codegen/plan/weight_store.h"

namespace reprise {

/// Makes the states the last inputs and the last outputs of the graph, in the order of the options.
/// Code::Usage if one does not exist, Code::InvalidModel if it cannot be a state.
Status order_states(graph::Graph& g, const std::vector<StateOption>& states);

/// Of a graph after the passes. Checks that the next value of each state has its type, and stores
/// the initial values. The interface is that of the graph.
Status finish_states(const graph::Graph& g, const std::vector<StateOption>& states,
                     WeightStore& weights, plan::Interface& io);

}  // namespace reprise
