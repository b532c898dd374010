// The fusion cost model: flops and element reads, with dynamic dims at a representative size.
#pragma once

#include <vector>

#include "codegen/lower/group.h"

namespace reprise::lower {

/// Elements of a shape with every symbol at a representative size.
double count_hint(const graph::Graph& g, const Shape& shape);
/// Flops (or gathers) per output element of an injective node; 0 for views and for
/// weights in 8 bits, which are to stay so in memory.
double recompute_cost(const graph::Graph& g, const graph::Node& n);
/// How often the kernel computes an element of n's result if n were (or is) part of it.
double evaluations(const graph::Graph& g, const Group& group, const graph::Node& n);
/// Flops that the group's kernel executes.
double group_flops(const graph::Graph& g, const Group& group);
/// Flops of the graph: every node once.
double graph_flops(const graph::Graph& g);

}  // namespace reprise::lower
