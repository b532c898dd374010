// The names that nodes of a file see while they are imported.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/onnx/file/file.h"

namespace reprise::onnx {

using graph::Graph;
using graph::kNone;
using graph::ValueId;

/// The context of the nodes of the model's graph, or of one call of a function.
struct Frame {
  std::map<std::string, int64_t> opsets;
  /// Attributes of the call by name, defaults included; null for the model's graph.
  const std::map<std::string, const wire::Attribute*>* attributes = nullptr;
  std::string prefix;                        // of names: "call/"
  std::vector<const wire::Function*> calls;  // the functions being inlined, outermost first

  /// The version of the default domain; 0 if it is not imported.
  int64_t default_opset() const {
    const auto at = opsets.find("");
    return at == opsets.end() ? 0 : at->second;
  }
};

/// The names that a list of nodes sees.
struct Scope {
  Graph* graph = nullptr;
  Scope* outer = nullptr;  // of a body: the scope in which other names are looked up
  const Frame* frame = nullptr;
  std::unordered_map<std::string, ValueId> names;
  std::unordered_map<std::string, const wire::ValueInfo*> declared;
  std::unordered_map<std::string, std::string> renamed;  // function outputs: the caller's names
  struct Capture {
    ValueId outer, inner;
  };
  std::vector<Capture> captures;
  const wire::Graph* source = nullptr;  // of a graph's own scope: what it is imported from

  /// The name in the graph of a value that the nodes name so.
  std::string name_in_graph(const std::string& name) const {
    const auto it = renamed.find(name);
    return it != renamed.end() ? it->second : frame->prefix + name;
  }
  /// A scope for nodes that are written into the same graph.
  Scope nested() {
    Scope inner;
    inner.graph = graph;
    inner.outer = this;
    inner.frame = frame;
    return inner;
  }
};

/// Whether a value is typed. Results of nodes that were left out are not.
inline bool is_typed(const graph::Value& v) {
  return v.has_shape && v.dtype != DType::Invalid;
}

}  // namespace reprise::onnx
