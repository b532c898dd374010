// If, Loop and Scan by their definitions, for graphs that are evaluated node by node.
// https://onnx.ai/onnx/operators/onnx__Loop.html and onnx__Scan.html
#pragma once

#include <functional>
#include <vector>

#include "codegen/graph/graph.h"

namespace reprise::fuzz {

struct ControlFlow {
  const graph::Node& node;
  std::vector<const HostTensor*> inputs;  // of the node; null: omitted
  /// The results of a body for the values that the operator passes to it.
  std::function<Result<std::vector<HostTensor>>(size_t body, std::vector<HostTensor> passed)> call;
  /// An output of the body if no iteration gives one.
  std::function<HostTensor(size_t output)> none;
};

bool is_control_flow(const graph::Node& n);
/// What the node gives, an output of its bodies each.
Result<std::vector<HostTensor>> run_control_flow(const ControlFlow& c);

/// Tensors of one shape side by side along a new axis.
HostTensor stacked(const std::vector<HostTensor>& parts, size_t axis, const HostTensor& like);
/// Element i of the axis, without the axis.
HostTensor element_at(const HostTensor& t, size_t axis, int64_t i);

}  // namespace reprise::fuzz
