// ONNX Runtime as a second reference, through its Python module in a separate process.
#pragma once

#include <string>
#include <vector>

#include "apps/common/inputs.h"

namespace reprise::app {

/// Runs the model file with ONNX Runtime on the CPU, without optimisations. Code::Unsupported if
/// python3 has no module onnxruntime or the module refuses the model.
Result<std::vector<HostTensor>> run_onnxruntime(const std::string& model, const InputSet& inputs);

}  // namespace reprise::app
