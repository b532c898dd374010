// Values by the names that nodes of a file have for them.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "codegen/onnx/importer.h"
#include "codegen/onnx/scope.h"

namespace reprise::onnx {

class Import;

class Names {
 public:
  explicit Names(Import& import) : import_(import) {}

  Status define(Scope& scope, const std::string& name, ValueId v);
  /// The value of a name, captured from an outer scope if necessary. kNone for a function's input
  /// that the call omits. Nothing if the name is not defined.
  std::optional<ValueId> resolve(Scope& scope, const std::string& name);
  /// A constant of the model's own graph may be the initial value of a state or of an optional
  /// input.
  Status add_constant(Scope& scope, const std::string& name, HostTensor t);
  Status add_initialisers(Scope& scope, const wire::Graph& g);
  void add_declared(Scope& scope, const wire::Graph& g);
  /// A declared dtype that differs is an error; dims that differ are noted once for each value.
  Status check_declared(const Scope& scope, const std::string& name, ValueId v,
                        const std::string& by);
  Status set_outputs(Scope& scope, const wire::Graph& g);

 private:
  Status add_state(Scope& scope, const std::string& name, HostTensor t);

  Import& import_;
  std::set<std::string> redeclared_;  // values with a note about their declared dims
};

}  // namespace reprise::onnx
