// What a fused kernel may hold, and when computing a node inside several kernels is worth it.
#pragma once

#include <string>
#include <vector>

#include "codegen/lower/cost.h"

namespace reprise::lower {

inline constexpr size_t kMaxNodes = 256, kMaxOutputs = 8;

/// Why a kernel of these nodes would be too large; empty if it is not. `kind`: of the group.
std::string too_large(const graph::Graph& g, GroupKind kind,
                      const std::vector<graph::Node*>& nodes);
/// Why n is not computed inside all of these kernels; empty if it is cheap enough.
std::string inline_cost(const graph::Graph& g, const graph::Node& n,
                        const std::vector<const Group*>& users);

}  // namespace reprise::lower
