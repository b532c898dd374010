// Caches among the inputs of a model that become states that grow.
#pragma once

#include <vector>

#include "codegen/options/compile_options.h"

namespace reprise {

/// The states of the options, followed by those that grow: inputs with one dynamic length along
/// which an output is the input followed by new rows. "auto" takes all that are recognised, a list
/// of patterns with * and ? those whose names match. Code::Usage says why one that matches cannot
/// grow, or that none matches. Makes the lengths symbols of these inputs.
Result<std::vector<StateOption>> with_growing_states(graph::Graph& g,
                                                     const CompileOptions& options);
/// The states of a graph whose last inputs and outputs are `states` that grow.
std::vector<passes::GrowingState> growing_of(const graph::Graph& g,
                                             const std::vector<StateOption>& states);

}  // namespace reprise
