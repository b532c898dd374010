// Exports part of an imported graph as an ONNX model. Nodes are written in the form that the
// importer gave them, so a graph that passes have changed is refused.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"

namespace reprise::onnx {

/// Nodes of a graph, and the values between them and the rest of the model. Constants of the graph
/// that the nodes read are included automatically.
struct Part {
  std::vector<const graph::Node*> nodes;                // in an order in which they can run
  std::vector<graph::ValueId> inputs, outputs;          // values of the graph
  std::map<graph::ValueId, HostTensor> constants;       // values that become initialisers
  std::map<graph::ValueId, std::vector<int64_t>> dims;  // of inputs and outputs; default: inferred
};

/// The bytes of a model file. Unsupported for nodes in core form.
Result<std::string> export_part(const graph::Graph& g, const Part& part);

/// The bytes of a TensorProto file, as the ONNX suite stores inputs and outputs.
std::string tensor_file(const HostTensor& tensor, const std::string& name);

}  // namespace reprise::onnx
