// Builds a graph once more, by calls of the builder.
#pragma once

#include "codegen/builder/graph_builder.h"

namespace reprise::test {

/// Adds everything that `g` consists of to a builder: symbols, inputs, constants, nodes with their
/// bodies, outputs. Bodies must be those of ONNX operators.
Result<builder::BuiltGraph> rebuild(const graph::Graph& g);

}  // namespace reprise::test
