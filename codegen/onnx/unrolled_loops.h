// Writes the iterations of short Loops and Scans into the graph, one after another.
#pragma once

#include <string>
#include <vector>

#include "codegen/onnx/scope.h"

namespace reprise::onnx {

class Import;

/// A Loop or Scan. In both, an iteration takes values that the one before it returned, and returns
/// values that the node stacks.
struct LoopForm {
  explicit LoopForm(const wire::Node& n) : node(n), is_scan(n.op_type() == "Scan") {}
  std::string name() const { return node.name().empty() ? node.op_type() : node.name(); }

  const wire::Node& node;
  bool is_scan;
  const wire::Graph* body = nullptr;
  std::vector<ValueId> carried, scanned;
  std::vector<size_t> in_axes, out_axes;  // of the scanned inputs, and of the stacked outputs
  std::vector<bool> in_reversed, out_reversed;
};

/// Whether so many iterations of a body are few enough.
bool may_unroll(int64_t iterations, const Graph& body);

class UnrolledLoop {
 public:
  /// The arguments must outlive the object.
  UnrolledLoop(Import& import, Scope& scope, const LoopForm& form)
      : import_(import), scope_(scope), g_(*scope.graph), form_(form) {}
  /// Returns the node's outputs; kNone for those that nothing reads.
  Result<std::vector<ValueId>> write(int64_t iterations);

 private:
  Result<std::vector<ValueId>> write_iteration(int64_t i, const std::vector<ValueId>& carried);
  Result<ValueId> slice(size_t k, int64_t i);
  Result<ValueId> stacked(const std::vector<ValueId>& parts, size_t k);
  Result<ValueId> add_node(const std::string& op, std::vector<ValueId> inputs, int64_t axis);

  Import& import_;
  Scope& scope_;
  Graph& g_;
  const LoopForm& form_;
};

/// Adds a node of opset 13 with one output, for the loop of this name.
Result<ValueId> add_axis_node(Graph& g, const std::string& loop, const std::string& op,
                              std::vector<ValueId> inputs, int64_t axis);

}  // namespace reprise::onnx
