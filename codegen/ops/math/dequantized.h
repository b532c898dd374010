// Dequantisations that exporters write as several operators.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"

namespace reprise::ops {

/// Numbers that broadcast to a weight along one axis. Axis -1: one number for all elements.
struct AlongAxis {
  int64_t axis = -1;
  std::vector<double> numbers;
};

/// (weight - zero) * scale, where the weight is a constant of integers.
struct Dequantized {
  graph::ValueId weight = graph::kNone;
  AlongAxis scale, zero;
  std::vector<std::string> origins;  // of the nodes but the last
};

/// The dequantisation whose last node is n, as a product of float32 numbers. Zero points must fit
/// the dtype of the weight.
std::optional<Dequantized> match_dequantized(const graph::Graph& g, const graph::Node& n);

}  // namespace reprise::ops
