// Limits on the size of a fused kernel, and when it is worth rematerialising a node in several
// kernels.
#pragma once

#include <string>
#include <vector>

#include "codegen/lower/group/cost.h"

namespace reprise::lower {

inline constexpr size_t kMaxNodes = 256, kMaxOutputs = 8;
/// Rematerialisation may add this fraction of a kernel's own flops. The whole graph then stays
/// below 1.1 times its flops.
inline constexpr double kRecompute = 0.08;

/// Why a kernel of these nodes would be too large; empty if it would not.
std::string too_large(const graph::Graph& g, GroupKind kind,
                      const std::vector<graph::Node*>& nodes);
/// The conditions that the Concats among these nodes need to compute one element of each output.
double concat_conditions(const graph::Graph& g, const std::vector<graph::Node*>& nodes);
/// Why n should not be computed inside all of these kernels; empty if that is cheap enough.
std::string inline_cost(const graph::Graph& g, const graph::Node& n,
                        const std::vector<const Group*>& users);

}  // namespace reprise::lower
