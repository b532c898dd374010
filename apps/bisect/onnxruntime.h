// ONNX Runtime as a second reference, by its Python module in a process of its own.
#pragma once

#include <string>
#include <vector>

#include "apps/common/inputs.h"

namespace reprise::app {

/// What ONNX Runtime computes for a model on the processor, unoptimised. Unsupported where
/// python3 has no module onnxruntime, or that refuses the model.
Result<std::vector<HostTensor>> run_onnxruntime(const std::string& model, const InputSet& inputs);

}  // namespace reprise::app
