// Nodes that the host computes as what they decompose into, because their operators have no host
// kernel, as many of com.microsoft.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "apps/bisect/host_values.h"

namespace reprise::app {

class ComposedNodes {
 public:
  /// Null if every node of the graph has a host kernel.
  static Result<std::unique_ptr<ComposedNodes>> of(const graph::Graph& g);

  /// The results of a node that has no host kernel, in its order. Sets the symbols that they
  /// decide.
  Result<std::vector<HostTensor>> run(const graph::Node& n, const Values& values,
                                      std::vector<int64_t>& symbols, Noise* noise) const;

 private:
  /// The values of the node's parts. `symbols` are those of the whole graph.
  Result<Values> evaluate(const graph::Node& n, const Values& values,
                          const std::vector<int64_t>& symbols, Noise* noise) const;
  graph::ValueId part_of(graph::ValueId v) const;

  std::unique_ptr<graph::Graph> graph_;  // a copy in which such nodes are decomposed
  std::unique_ptr<HostGraph> host_;
  std::map<graph::ValueId, graph::ValueId> parts_;  // the results of such nodes in the copy
};

}  // namespace reprise::app
