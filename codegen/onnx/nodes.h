// Imports nodes: operators, and by others calls of functions, control flow and rewritten operators.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/onnx/file/order.h"
#include "codegen/onnx/scope.h"

namespace reprise::onnx {

class Import;

class Nodes {
 public:
  explicit Nodes(Import& import) : import_(import) {}

  /// Adds nodes in topological order.
  Status add_all(Scope& scope, const NodeList& nodes);
  Status add(Scope& scope, const wire::Node& n);

  Result<std::vector<ValueId>> inputs_of(Scope& scope, const wire::Node& n);
  Status set_attributes(Scope& scope, const wire::Node& n, graph::NodeSpec& node);
  Status check_outputs(Scope& scope, const wire::Node& n, const graph::Node& node);
  /// The attribute, or the attribute of the call that it refers to. Null if the call omits it.
  Result<const wire::Attribute*> actual(const Scope& scope, const wire::Attribute& a);
  /// The error for an operator that is not in the registry.
  Status unknown_operator(const Scope& scope, const wire::Node& n, const std::string& domain);
  /// Whether the model's functions and bodies expand to more nodes than are allowed.
  bool expands_too_far() const;
  /// For is_fault_of_types(): errors from now on count.
  void watch_types() { types_failed_ = false; }
  /// Whether the last error came from inference, so that it is one of its branch alone.
  bool is_fault_of_types(const Status& s) const;

 private:
  Status add_operator(Scope& scope, const wire::Node& n, const std::string& domain);
  Status add_constant_node(Scope& scope, const wire::Node& n);
  void collect_unknown(const NodeList& nodes, std::set<std::string>& out) const;

  Import& import_;
  int64_t inlined_ = 0;        // nodes of inlined functions and of bodies, including nested ones
  bool types_failed_ = false;  // since the last watch_types()
  std::map<const Graph*, int> lists_;  // how many lists of nodes are being added to a graph
};

}  // namespace reprise::onnx
