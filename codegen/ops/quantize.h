// DequantizeLinear in core form: a constant of 8 bits that stays so in memory. Its attributes and
// inputs are ONNX's, with a non-negative axis.
#pragma once

#include "codegen/ops/element.h"

namespace reprise::ops {

/// In any form.
bool is_dequantize(const graph::Node& n);
/// Turns any node into the core form.
void become_dequantize(graph::Graph& g, graph::Node& n, std::vector<graph::ValueId> inputs,
                       int64_t axis);
bool is_core_dequantize(const graph::Node& n);

/// The axis that scale and zero point vary along: -1 for one number for all. Nothing for blocks.
std::optional<int64_t> scaled_axis(const graph::Graph& g, const graph::Node& n);

/// Index of the scale (and zero point) of an element.
Index scale_index(const graph::Graph& g, const graph::Node& n, const Index& element);

}  // namespace reprise::ops
