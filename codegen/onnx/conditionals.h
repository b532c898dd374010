// If: if the condition is known, the branch that it takes replaces the node; else both branches
// become bodies.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/onnx/notes.h"
#include "codegen/onnx/scope.h"

namespace reprise::onnx {

class Import;

Status add_if(Import& import, Scope& scope, const wire::Node& n);

/// The value of a condition that the compiler knows.
std::optional<bool> known_condition(const Graph& g, ValueId condition);
/// Makes a value the result of an If whose branches give these values. Dims that differ depend on
/// data. `what` names the result; `advice` says how to make the condition known.
Status merge_types(Graph& g, ValueId out, const std::array<const graph::Value*, 2>& given,
                   const std::string& what, const std::string& advice);
/// What to do so that the condition of an If is known.
std::string advice_for(const Graph& g, ValueId condition);
/// invalid_branches.cpp: a body that fails with this error, for a branch whose types do not fit.
/// Its results have the types of these values of `other`, which is the other branch.
Result<std::shared_ptr<Graph>> failing_body(const Graph& outer, const Graph& other,
                                            const std::vector<ValueId>& results, const Status& why,
                                            Notes& notes);

}  // namespace reprise::onnx
