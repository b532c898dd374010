// What the rows of com.microsoft's operators share.
#pragma once

#include "codegen/ops/row/composed.h"

namespace reprise::ops {

struct OperandCounts {
  int min_inputs = 1, max_inputs = 1, max_outputs = 1;
};

/// The row of an operator that decomposes.
constexpr OpDef microsoft_row(std::string_view name, Status (*infer)(InferContext&),
                              Result<bool> (*decompose)(Rewriter&), OperandCounts counts,
                              std::span<const AttrDecl> attributes = {}) {
  return {.name = name,
          .domain = kMicrosoft,
          .infer = infer,
          .decompose = decompose,
          .min_inputs = counts.min_inputs,
          .max_inputs = counts.max_inputs,
          .max_outputs = counts.max_outputs,
          .attributes = attributes};
}

/// The row of an operator whose outputs have the types that its decomposition gives them.
constexpr OpDef composed_row(std::string_view name, Result<bool> (*decompose)(Rewriter&),
                             OperandCounts counts, std::span<const AttrDecl> attributes = {}) {
  return microsoft_row(name, infer_composed, decompose, counts, attributes);
}

/// The row of an operator that has the name of another one in models.
constexpr OpDef renamed(OpDef row, std::string_view in_models) {
  row.in_models = in_models;
  return row;
}

/// The row of an operator that takes or returns low-bit types.
constexpr OpDef of_low_bits(OpDef row) {
  row.low_bit = true;
  return row;
}

}  // namespace reprise::ops
