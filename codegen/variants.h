// The variants of a package: which ones a model gets, and the plan of each.
#pragma once

#include "codegen/compile_context.h"
#include "codegen/lower/fuse.h"
#include "runtime/package/package.h"

namespace reprise {

/// For the portable fusion, whose prices are those of no device in particular.
lower::FusionOptions fusion_options(const CompileContext& context);

/// Says of each edge of the graph that did not fuse why.
void explain_unfused(const lower::Fusion& fusion, package::Explanation& explanation);

/// Adds the variants that the options ask for. One whose devices have prices of their own fuses
/// accordingly, all others share `portable`.
Status build_variants(CompileContext& context, lower::Fusion& portable, package::Package& p);

}  // namespace reprise
