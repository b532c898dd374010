// What the rows of com.microsoft's operators share.
#pragma once

#include "codegen/ops/op.h"

namespace reprise::ops {

inline constexpr std::string_view kMicrosoft = "com.microsoft";

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

}  // namespace reprise::ops
