// DequantizeLinear in core form: an 8-bit constant that keeps its type in memory. Its attributes
// and inputs are those of ONNX, with a non-negative axis.
#pragma once

#include "codegen/ops/row/element.h"

namespace reprise::ops {

/// Inputs after the integers and the scale; each may be left out. In core form alone there is a
/// minimum, floats with the shape of the scale: the result is (x - zero) * scale + minimum.
enum DequantizeInput : size_t { kZeroPoint = 2, kMinimum = 3 };
inline bool has_input(const graph::Node& n, size_t i) {
  return n.inputs.size() > i && n.inputs[i] != graph::kNone;
}

/// Turns a node into a DequantizeLinear in core form.
void become_dequantize(graph::Graph& g, graph::Node& n, std::vector<graph::ValueId> inputs,
                       int64_t axis);

/// The axis along which scale and zero point vary. -1: one number for all. Nothing for blocks.
std::optional<int64_t> scaled_axis(const graph::Graph& g, const graph::Node& n);

/// The index of the scale and zero point of an element.
Index scale_index(const graph::Graph& g, const graph::Node& n, const Index& element);

}  // namespace reprise::ops
