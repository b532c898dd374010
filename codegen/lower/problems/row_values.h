// Reductions of the rows of a product's left operand, such as the scale of a normalisation. The
// kernel of the product computes them for the row that it reads.
#pragma once

#include <span>
#include <string>

#include "codegen/lower/problems/operand.h"
#include "shaders/contraction.h"

namespace reprise::lower {

/// Whether kernels of the group compute reductions of rows. Their tiles have one row.
bool has_row_values(const Group& group);
/// Why the kernels of these products should not compute what the row kernel `rows` does, of which
/// they read the only result; empty if they should.
std::string rows_apart(const graph::Graph& g, std::span<const Group* const> products,
                       const Group& rows, const TargetFacts& device);
/// Writes the reductions of the group for a row, whose index in the operand this is, without the
/// column. All invocations of a subgroup that computes a tile have the same row.
Status compute_row_values(ResultKernel& kernel, const Index& row, const shaders::Tile& tile);

}  // namespace reprise::lower
