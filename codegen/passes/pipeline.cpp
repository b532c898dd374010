#include <array>

#include "codegen/passes/pass.h"

namespace reprise::passes {

namespace {
constexpr std::array kPipeline{
    Pass{"narrow-weights", narrow_weights, false, false, "keep weights of 8 bits in 8 bits"},
    Pass{"decompose", decompose, true, true, "rewrite ONNX operators into core form"},
    Pass{"shape-values", shape_values, true, true, "replace shape arithmetic by expressions"},
    Pass{"fold-constants", fold_constants, false, true, "evaluate nodes with constant inputs"},
    Pass{"canonicalize", canonicalize, false, true, "remove and merge views and casts"},
    Pass{"fold-batch-norm", fold_batch_norm, false, true, "move channel scales into weights"},
    Pass{"layout", layout, false, true, "move channels last where that saves conversions"},
    Pass{"cse", cse, false, true, "merge equal nodes"},
    Pass{"dce", dce, false, true, "remove nodes without users"},
};
}  // namespace

std::span<const Pass> pipeline() {
  return kPipeline;
}

}  // namespace reprise::passes
