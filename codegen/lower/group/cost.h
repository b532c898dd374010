// The fusion cost model: flops and element reads, with dynamic dims at representative sizes
// (codegen/graph/size_hint.h).
#pragma once

#include <vector>

#include "codegen/graph/size_hint.h"
#include "codegen/lower/group/group.h"

namespace reprise::lower {

/// Flops (or gathers) per output element of an injective node. 0 for views, and for dequantised
/// weights, which are to stay in 8 bits in memory.
double recompute_cost(const graph::Graph& g, const graph::Node& n);
/// How many elements of n's result the group's kernel computes in total, repetitions included, if n
/// were (or is) part of it.
double evaluations(const graph::Graph& g, const Group& group, const graph::Node& n);
/// Flops that the group's kernel executes.
double group_flops(const graph::Graph& g, const Group& group);
/// Flops of the graph if every node is computed once.
double graph_flops(const graph::Graph& g);

}  // namespace reprise::lower
