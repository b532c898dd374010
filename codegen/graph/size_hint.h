// Representative sizes: what prices and costs take for dims that only a run knows.
#pragma once

#include "codegen/graph/graph.h"

namespace reprise::graph {

/// Number of elements of a shape, with a representative size for every symbol: 1 for the first of
/// several dims of an input, 256 for the last two of an image, and 64 for all others, within the
/// symbol's range and the sizes that are likely. Every dim counts as 1 at least, so that costs are
/// positive: a dim such as n - 64 is 0 at the representative size of n, but not in the runs that
/// matter.
double count_hint(const Graph& g, const Shape& shape);

}  // namespace reprise::graph
