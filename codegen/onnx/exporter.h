// Graph IR -> ONNX: part of an imported graph as a model file of its own. Nodes keep the form that
// the importer gave them, so a graph that passes have changed is refused.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"

namespace reprise::onnx {

/// Nodes of a graph with what lies between them and the rest of the model. Constants of the graph
/// that the nodes read come along by themselves.
struct Part {
  std::vector<const graph::Node*> nodes;                // in an order that can run
  std::vector<graph::ValueId> inputs, outputs;          // values of the graph
  std::map<graph::ValueId, HostTensor> constants;       // values that become initialisers
  std::map<graph::ValueId, std::vector<int64_t>> dims;  // of inputs and outputs; else as inferred
};

/// The bytes of a model file. Unsupported for nodes with bodies and those in core form.
Result<std::string> export_part(const graph::Graph& g, const Part& part);

/// The bytes of a TensorProto file, as the ONNX suite stores inputs and outputs.
std::string tensor_file(const HostTensor& tensor, const std::string& name);

}  // namespace reprise::onnx
