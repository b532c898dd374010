// --precision: stores tensors between kernels and large constants in 16 bits. They are rounded when
// they are stored; kernels still compute in fp32 registers.
#pragma once

#include <vector>

#include "codegen/graph/graph.h"
#include "runtime/package/package.h"

namespace reprise::passes {

struct AutocastReport {
  int64_t narrowed = 0;  // nodes whose results are stored in `precision`
  std::vector<package::KeptNode> kept;
};

/// Constants with fewer elements stay as they are, because their size matters little.
inline constexpr int64_t kMinNarrowed = int64_t{1} << 12;

/// Sets Value::storage of values, and of constants with at least `min_elements`, in a graph in core
/// form. No pass may change the graph afterwards. `precision` is F16 or BF16.
AutocastReport autocast(graph::Graph& g, DType precision, int64_t min_elements = kMinNarrowed);

/// Stores large constants that layers and embeddings of an imported graph read in `precision`, each
/// with a Cast that widens it. This is the host plan of a package with weights in `precision`.
void narrow_host_constants(graph::Graph& g, DType precision);

}  // namespace reprise::passes
