// The importer of Loop and Scan.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/onnx/builder.h"

namespace reprise::onnx {

/// Imports one Loop or Scan. In both, an iteration takes values that the one before it returned,
/// and returns values that the node stacks.
class LoopBuilder {
 public:
  LoopBuilder(Builder& builder, Scope& scope, const wire::Node& n)
      : b_(builder), scope_(scope), g_(*scope.graph), n_(n), is_scan_(n.op_type() == "Scan") {}
  Status run();

 private:
  using BodyInput = Builder::BodyInput;

  Status read();
  Status read_scan();
  Status read_axes();
  std::vector<BodyInput> iteration_inputs() const;
  Shape without_axis(ValueId v, size_t axis) const;
  /// Imports the body for shapes that hold in every iteration.
  Status import_body();
  Status wrap_optionals(Graph& body);
  Status unwrap(size_t i, ValueId optional);
  Result<bool> generalize(const Graph& body);
  bool starts() const;
  bool runs_once() const;
  Result<bool> replace_initial(size_t i, const Graph& body);
  Status check_ranks(const Graph& body);
  Status find_out_axes();
  std::optional<int64_t> iterations() const;
  bool condition_holds() const;
  bool writes_out() const;
  Status write_out();
  Result<std::vector<ValueId>> write_iteration(int64_t i, const std::vector<ValueId>& carried);
  Result<ValueId> slice(size_t k, int64_t i);
  Result<ValueId> stacked(const std::vector<ValueId>& parts, size_t k);
  Result<ValueId> emit(const std::string& op, std::vector<ValueId> inputs, int64_t axis);
  void simplify_condition();
  Status keep();
  Shape output_shape(ValueId out, size_t i);
  Status name_output(size_t i, ValueId v);
  Expr fresh_dim(ValueId out, size_t axis);
  std::string loop_name() const { return n_.name().empty() ? n_.op_type() : n_.name(); }
  bool batched() const { return is_scan_ && node_.opset == 8; }

  Builder& b_;
  Scope& scope_;
  Graph& g_;
  const wire::Node& n_;
  bool is_scan_;
  graph::NodeSpec node_;  // inputs and attributes are those of the model
  const wire::Graph* body_ = nullptr;
  std::vector<ValueId> carried_, scanned_;
  std::vector<size_t> in_axes_, out_axes_;  // of the scanned inputs, and of the stacked outputs
  std::vector<bool> in_reversed_, out_reversed_;
  std::vector<Shape> carried_shapes_;  // in every iteration
  std::vector<graph::Items> carried_items_;
  std::vector<bool> wrapped_;  // an optional whose value the body returns
  std::vector<size_t> ranks_;  // of the results of the body before initial values got other ranks
  std::vector<std::vector<bool>> varies_;  // per carried value and dim: differs between iterations
  size_t first_own_symbol_ = 0;            // symbols from here on belong to iterations
  std::shared_ptr<Graph> iteration_;
  Scope iteration_scope_;
};

}  // namespace reprise::onnx
