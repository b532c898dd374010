// Topological order of a node list, which files do not always keep.
#pragma once

#include <vector>

#include "codegen/onnx/file.h"

namespace reprise::onnx {

using NodeList = google::protobuf::RepeatedPtrField<wire::Node>;

/// "node 'conv1' (Conv)"; nodes without a name are named by operator and first output.
std::string node_text(const wire::Node& n);

/// Indices of the nodes with producers before users, otherwise in the file's order. A value with
/// two producers and a cycle are InvalidModel.
Result<std::vector<int>> topological_order(const NodeList& nodes);

}  // namespace reprise::onnx
