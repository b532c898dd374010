// The bodies of If, Loop and Scan as graphs of their own.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/onnx/scope.h"

namespace reprise::onnx {

class Import;

/// A value that an operator passes to a body, by the type that it has in each iteration.
struct BodyInput {
  DType dtype;
  Shape shape;
  graph::Items items = {};
};

/// Imports a body as a graph of its own. `scope` receives what it captures.
Result<std::shared_ptr<Graph>> import_body(Import& import, Scope& outer, const wire::Graph& body,
                                           const std::vector<BodyInput>& inputs, Scope& scope);
/// Writes the nodes of a body into the graph of its scope.
Status inline_body(Import& import, Scope& inner, const wire::Graph& body);

/// Adds a node of one operand and one result, of the newest version.
Result<ValueId> add_simple(Graph& g, const char* op, ValueId operand, const std::string& result);
/// Makes the outer values that the node's bodies capture its last inputs. Every body gets a value
/// of its own for each of them. `scopes` are those of the bodies.
void join_captures(graph::NodeSpec& node, std::span<const Scope> scopes);
/// Appends the symbols that only `from` has. One of the graphs is a body of the other, and both
/// have had the same symbols so far.
void share_symbols(const Graph& from, Graph& to);
/// What is known, outside of a body of `g`, of the items of a value of the body.
graph::Items items_outside(const Graph& g, graph::Items items);

}  // namespace reprise::onnx
