// Tensors that follow from constants alone: the Reshape of an initialiser, a list of sizes that the
// exporter left to be joined. Operators that need a constant take them as such.
#pragma once

#include <unordered_map>
#include <vector>

#include "codegen/graph/graph.h"

namespace reprise::onnx {

/// Computes them with the host's kernels.
class Determined {
 public:
  struct Limits {
    size_t nodes = 64;      // that are computed
    int64_t operands = 64;  // elements of each operand
    int64_t results = 64;   // elements of each result
  };
  Determined(const graph::Graph& g, const Limits& limits) : g_(g), limits_(limits) {}

  /// Null if the value depends on more than constants, or a limit is exceeded.
  const HostTensor* value(graph::ValueId v);

 private:
  std::vector<HostTensor> computed(const graph::Node& n);
  bool may_compute(const graph::Node& n) const;
  bool fit(const graph::Node& n, const std::vector<HostTensor>& results) const;

  const graph::Graph& g_;
  const Limits limits_;
  std::unordered_map<const graph::Node*, std::vector<HostTensor>> results_;
};

/// Sets Value::determined of the results of a node that was just added, if its operands are known
/// and the results are small or have the elements of an operand.
void determine_results(graph::Graph& g, const graph::Node& n);
/// Sets it for the operands that follow from constants, whatever their sizes. Returns whether there
/// were any.
bool determine_operands(graph::Graph& g, const graph::Node& n);

}  // namespace reprise::onnx
