// Chooses the variants that a model gets, and builds the plan of each.
#pragma once

#include <vector>

#include "codegen/compile/compile_context.h"
#include "codegen/compile/plan_requests.h"
#include "codegen/lower/fuse/fuse.h"
#include "runtime/package/package.h"

namespace reprise {

/// Options of the portable fusion, whose prices assume nothing about the device.
lower::FusionOptions fusion_options(const CompileContext& context);

/// Copies the reasons why edges of the graph were not fused into the explanation.
void explain_unfused(const lower::Fusion& fusion, package::Explanation& explanation);

/// Adds the variants that the options ask for, with plans for the requested sizes. A variant whose
/// devices answer pricing differently gets its own fusion; all others share `portable`.
Status build_variants(CompileContext& context, lower::Fusion& portable,
                      const std::vector<PlanRequest>& plans, package::Package& p);

}  // namespace reprise
