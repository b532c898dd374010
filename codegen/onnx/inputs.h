// The model's inputs: their names, types, and the names of their dimensions.
#pragma once

#include <string>
#include <vector>

#include "codegen/onnx/importer.h"
#include "codegen/onnx/scope.h"

namespace reprise::onnx {

/// The tensor of an input whose elements are known.
Result<HostTensor> known_value(const graph::Value& v, const std::vector<int64_t>& values);
/// Makes the model's inputs without initialisers graph inputs. Dynamic dims become symbols, unless
/// the options fix them. With ImportOptions::refusals, inputs that are refused are added to
/// `refused`.
Status add_inputs(Graph& g, const wire::Graph& model, const ImportOptions& options,
                  std::vector<std::string>& refused);

}  // namespace reprise::onnx
