// Representative sizes: what prices and costs take for dims that only a run knows.
#pragma once

#include "codegen/graph/graph.h"

namespace reprise::graph {

/// Number of elements of a shape, with a representative size for every symbol: 1 for the first of
/// several dims of an input, 256 for the last two of an image, and 64 for all others, within the
/// symbol's range.
double count_hint(const Graph& g, const Shape& shape);

}  // namespace reprise::graph
