// The topological order of a list of nodes, which files do not always keep.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "codegen/onnx/file/file.h"

namespace reprise::onnx {

using NodeList = google::protobuf::RepeatedPtrField<wire::Node>;

/// "node 'conv1' (Conv)". A node without a name is described by its operator and first output.
std::string node_text(const wire::Node& n);

/// The node's name in messages: "Conv(y)" if it has none.
std::string name_of_node(const wire::Node& n);

/// The names that the node and its bodies read from outside.
std::unordered_set<std::string> names_read(const wire::Node& n);

/// The indices of the nodes, producers before users, otherwise in the order of the file. A value
/// with two producers is InvalidModel, and so is a cycle.
Result<std::vector<int>> topological_order(const NodeList& nodes);

}  // namespace reprise::onnx
