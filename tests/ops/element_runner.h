// Runs one core node on the kernel interpreter, one invocation per output element, with nothing
// but the node's own definition.
#pragma once

#include <vector>

#include "codegen/graph/graph.h"

namespace reprise::test {

/// The node's output `output`. `symbols` are the values of the graph's symbols. Inputs are null
/// when omitted.
Result<HostTensor> run_element(const graph::Graph& g, const graph::Node& n, size_t output,
                               const std::vector<const HostTensor*>& inputs,
                               const std::vector<int64_t>& symbols);

}  // namespace reprise::test
