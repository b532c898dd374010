// Loop and Scan: few iterations are written into the graph (unrolled_loops.h); else the body
// becomes a graph of its own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/onnx/bodies.h"
#include "codegen/onnx/unrolled_loops.h"

namespace reprise::onnx {

/// Imports one Loop or Scan.
class LoopBuilder {
 public:
  LoopBuilder(Import& import, Scope& scope, const wire::Node& n)
      : import_(import), scope_(scope), g_(*scope.graph), form_(n) {}
  Status run();

 private:
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
  Status write_out(int64_t count);
  void simplify_condition();
  Status keep();
  Shape output_shape(ValueId out, size_t i);
  Status name_output(size_t i, ValueId v);
  Expr fresh_dim(ValueId out, size_t axis);
  bool batched() const { return form_.is_scan && node_.opset == 8; }

  Import& import_;
  Scope& scope_;
  Graph& g_;
  LoopForm form_;
  graph::NodeSpec node_;               // inputs and attributes are those of the model
  std::vector<Shape> carried_shapes_;  // in every iteration
  std::vector<graph::Items> carried_items_;
  std::vector<bool> wrapped_;  // an optional whose value the body returns
  std::vector<size_t> ranks_;  // of the results of the body before initial values got other ranks
  std::vector<std::vector<bool>> varies_;  // per carried value and dim: differs between iterations
  size_t first_own_symbol_ = 0;            // symbols from here on belong to iterations
  std::shared_ptr<Graph> iteration_;
  Scope iteration_scope_;
};

Status add_loop(Import& import, Scope& scope, const wire::Node& n);

}  // namespace reprise::onnx
