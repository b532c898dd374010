// --precision: what a model keeps in memory in 16 bits. Everything is still computed in fp32 in
// registers; tensors between kernels and large constants are rounded where they are stored.
#pragma once

#include <vector>

#include "codegen/graph/graph.h"
#include "runtime/package/package.h"

namespace reprise::passes {

struct AutocastReport {
  int64_t narrowed = 0;  // nodes whose results are `precision` where they are stored
  std::vector<package::KeptNode> kept;
};

/// Constants of fewer elements cost little in any form and stay as they are.
inline constexpr int64_t kMinNarrowed = int64_t{1} << 12;

/// Gives values, and constants of at least so many elements, of a graph in core form their
/// Value::storage. Afterwards no pass may change the graph. `precision` is F16 or BF16.
AutocastReport autocast(graph::Graph& g, DType precision, int64_t min_elements = kMinNarrowed);

/// Large constants that layers and embeddings of an imported graph read, in `precision` and widened
/// by a Cast: what the host runs of a package that has its weights in `precision`.
void narrow_host_constants(graph::Graph& g, DType precision);

}  // namespace reprise::passes
