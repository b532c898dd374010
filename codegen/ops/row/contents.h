// Computes the contents of small integer tensors as expressions, for OpDef::contents.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "codegen/ops/row/op.h"

namespace reprise::ops {

/// Computes one element of the result from one element of each operand, or nothing if it is
/// unknown.
using Formula = std::optional<Expr> (*)(const ContentsContext& ctx, std::span<const Expr> operands);

/// Applies the formula to every element of output 0. The first `operands` inputs are broadcast.
void elementwise_contents(ContentsContext& ctx, size_t operands, Formula formula);
/// The same for all inputs, as a function for OpDef::contents.
template <Formula formula>
void elementwise(ContentsContext& ctx) {
  elementwise_contents(ctx, ctx.input_count(), formula);
}

/// Output 0 has the elements of input 0 in the same order.
void same_contents(ContentsContext& ctx);
/// Output 0 has these elements of the vector input 0. Negative positions count from its end.
void gathered_contents(ContentsContext& ctx, std::span<const int64_t> positions);

}  // namespace reprise::ops
