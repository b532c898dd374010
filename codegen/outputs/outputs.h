// Outputs that the options of a compilation change or add (codegen/graph/output_options.h).
#pragma once

#include "codegen/graph/graph.h"
#include "codegen/options/compile_options.h"

namespace reprise {

/// Cuts the outputs of which only the last position is wanted. Code::Usage if there is no such
/// output or axis.
Status add_last(graph::Graph& g, const std::vector<LastOption>& last);

/// Adds the sampling of tokens, if the options ask for it, and to the options the states and
/// optional inputs that this takes. Code::Usage if the output cannot be sampled from.
Status add_sampling(graph::Graph& g, CompileOptions& options);

}  // namespace reprise
