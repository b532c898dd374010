// What the rows of former versions of operators share.
#pragma once

#include <string>

#include "codegen/ops/row/composed.h"

namespace reprise::ops {

struct OldName {
  std::string_view name;       // of the row
  std::string_view in_models;  // "": the same
  int64_t last = 0;            // the last version; 0: the operator has no later form
};

struct Counts {
  int min_inputs = 1, max_inputs = 1, max_outputs = 1;
};

/// The row of versions that are written in later ones.
constexpr OpDef old_row(OldName name, Result<bool> (*decompose)(Rewriter&), Counts counts,
                        std::span<const AttrDecl> attributes = {}) {
  return {.name = name.name,
          .in_models = name.in_models,
          .infer = infer_composed,
          .decompose = decompose,
          .max_opset = name.last,
          .min_inputs = counts.min_inputs,
          .max_inputs = counts.max_inputs,
          .max_outputs = counts.max_outputs,
          .attributes = attributes};
}

/// The operator's name in models, of a row with `in_models`.
std::string name_in_models(const graph::Node& n);

}  // namespace reprise::ops
