// What the importer refuses in a model.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace reprise::onnx {

struct Refusal {
  /// The node, or the input or initialiser, with the names of the calls of functions around it:
  /// "call/node". Empty: the model.
  std::string node;
  std::string op;       // empty if it is not a node
  std::string domain;   // "ai.onnx" for the default domain
  int64_t version = 0;  // of the domain; 0: the model imports none
  Status why;           // the error without the node's name

  /// The error with the name: "node 'a' (Add, domain 'ai.onnx', version 17): ...".
  Status error() const;
};

}  // namespace reprise::onnx
