// How operators with OpDef::contents compute what small integer tensors hold, as expressions.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "codegen/ops/op.h"

namespace reprise::ops {

/// One element of the result from one element of every operand; nothing where it cannot be said.
using Formula = std::optional<Expr> (*)(const ContentsContext& ctx, std::span<const Expr> operands);

/// The formula at every element of output 0. Operands are the first `operands` inputs, broadcast.
void elementwise_contents(ContentsContext& ctx, size_t operands, Formula formula);
/// Of all inputs, as a function for OpDef::contents.
template <Formula formula>
void elementwise(ContentsContext& ctx) {
  elementwise_contents(ctx, ctx.input_count(), formula);
}

/// Output 0 holds what input 0 does, in the same order.
void same_contents(ContentsContext& ctx);
/// Output 0 holds these elements of a vector, input 0; negative ones count from its end.
void picked_contents(ContentsContext& ctx, std::span<const int64_t> positions);

}  // namespace reprise::ops
