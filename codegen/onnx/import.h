// The import of one model. Its parts use each other: a node may have bodies, which have names and
// nodes.
#pragma once

#include <memory>
#include <string>

#include "codegen/onnx/forks.h"
#include "codegen/onnx/functions.h"
#include "codegen/onnx/importer.h"
#include "codegen/onnx/model.h"
#include "codegen/onnx/names.h"
#include "codegen/onnx/nodes.h"
#include "codegen/onnx/notes.h"
#include "codegen/onnx/refusals.h"

namespace reprise::onnx {

class Import {
 public:
  /// `file` names the model in messages; empty for a model in memory. The options must outlive the
  /// import.
  Import(const std::shared_ptr<const wire::Model>& proto, ExternalData external, std::string file,
         const ImportOptions& o);
  Import(const Import&) = delete;
  Import& operator=(const Import&) = delete;
  Result<std::unique_ptr<Graph>> run();

  const ImportOptions& options;
  Model model;
  Notes notes;
  Refusals refusals;
  Names names;
  Nodes nodes;
  Functions functions;
  Forks forks;

 private:
  Status define_inputs(Scope& scope);
};

}  // namespace reprise::onnx
