// Graph passes: one file each; pipeline.cpp lists their order. Each is timed, can be dumped,
// verified after and (unless required) switched off by name.
#pragma once

#include <span>
#include <string_view>

#include "codegen/graph/graph.h"

namespace reprise::passes {

struct Pass {
  std::string_view name;
  Status (*run)(graph::Graph&);
  bool required;  // lowering relies on it: --disable-pass refuses
  bool core;      // the graph is in core form afterwards
  std::string_view what;
};

/// In order.
std::span<const Pass> pipeline();

// Implemented in the file of the same name.
Status narrow_weights(graph::Graph& g);  // weights in 8 bits stay so: core DequantizeLinear
Status decompose(graph::Graph& g);       // ONNX forms -> core form (codegen/graph/semantics.md)
Status shape_values(graph::Graph& g);    // computed shape arithmetic -> constants and ShapeValue
Status fold_constants(
    graph::Graph& g);  // nodes with constant inputs -> constants, by the host kernels
Status canonicalize(graph::Graph& g);     // no-op and mergeable views and casts
Status fold_batch_norm(graph::Graph& g);  // per-channel scales after Conv and MatMul -> weights
Status layout(graph::Graph& g);           // channels last where conversions vanish
Status cse(graph::Graph& g);              // equal nodes over equal inputs -> one
Status dce(graph::Graph& g);              // nodes without users

}  // namespace reprise::passes
