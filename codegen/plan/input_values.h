// What runs may leave out of the inputs, and the values for which a model was compiled.
#pragma once

#include "codegen/options/compile_options.h"
#include "codegen/plan/weight_store.h"
#include "runtime/plan/plan.h"

namespace reprise {

/// Stores the values of optional inputs, and of CompileOptions::values, with the interface.
Status store_input_values(const CompileOptions& options, WeightStore& weights, plan::Interface& io);

}  // namespace reprise
