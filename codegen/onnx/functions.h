// Inlines model-local functions where they are called.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/onnx/scope.h"

namespace reprise::onnx {

class Import;

class Functions {
 public:
  explicit Functions(Import& import) : import_(import) {}

  Status add_call(Scope& scope, const wire::Node& n, const wire::Function& f);
  /// An error that passed through calls does not end the import after all.
  void forget_failure() { failed_calls_.clear(); }

 private:
  Result<std::map<std::string, const wire::Attribute*>> bind_attributes(const Scope& scope,
                                                                        const wire::Node& n,
                                                                        const wire::Function& f);

  Import& import_;
  /// While an error passes through calls of functions: the calls, innermost first.
  std::vector<std::string> failed_calls_;
};

}  // namespace reprise::onnx
