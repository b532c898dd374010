// What matmul.cpp and conv.cpp share: packed weights and the fused epilogue.
#pragma once

#include <optional>

#include "codegen/lower/lower.h"

namespace reprise::lower {

Result<Lowered> lower_matmul(const graph::Graph& g, const Group& group, const Target& target);
Result<Lowered> lower_conv(const graph::Graph& g, const Group& group, const Target& target);

/// A constant that can be packed into tiles of columns at load.
struct ConstantMatrix {
  graph::ValueId value = graph::kNone;  // the constant
  bool transposed = false;              // stored as [N, K]
};
/// B of a MatMul, seen through a transposing view; nothing unless constant, 2-D and F32.
std::optional<ConstantMatrix> constant_matrix(const graph::Graph& g, graph::ValueId b);

/// Runs `body` where the condition holds; without a condition always. Values computed inside are
/// forgotten.
Status guard(Evaluator& ev, kernel::Val condition, const std::function<Status()>& body);

/// Binds the anchor's result at `index` (over the group's domain) and stores every output there.
Status store_outputs(Evaluator& ev, const Group& group, const Index& index, kernel::Val result,
                     int lanes);

/// One coordinate that may run past its end in the last tile: clamped for loads, with the condition
/// under which it may be stored (none if it never does).
struct Coordinate {
  Expr index;
  kernel::Val in_range;
};
Coordinate clamped(Evaluator& ev, kernel::Val v, const Expr& end, bool exact);

}  // namespace reprise::lower
