// ONNX Runtime as a second reference: its Python module, in a process of its own.
#pragma once

#include "tests/fuzz/lib/evaluation.h"
#include "tests/fuzz/lib/process.h"

namespace reprise::fuzz {

/// A graph that no pass has changed, as a model file. Unsupported where its nodes are of several
/// opsets, or of types that numpy lacks.
Result<std::string> onnx_bytes(const graph::Graph& g);

/// Whether ONNX leaves open what a run of the graph gives, so that implementations differ.
bool is_open(const graph::Graph& g, const Tensors& inputs, const Tensors& expected);

class OnnxRuntime {
 public:
  OnnxRuntime();
  /// What it computes on the processor, unoptimised. Unsupported where it refuses the model, or
  /// crashes over it; an error where python3 has no such module.
  Result<Tensors> run(const std::string& model, const graph::Graph& g, const Tensors& inputs);

 private:
  Process process_;
};

}  // namespace reprise::fuzz
