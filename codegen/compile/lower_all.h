// Lowers and legalises every group on several threads.
#pragma once

#include <vector>

#include "codegen/compile/compile_context.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/target/target.h"

namespace reprise {

struct TargetFusion {
  lower::Target target;
  lower::Fusion* fusion;
};

/// Computes the keys of all groups, then lowers and legalises each distinct group once for all
/// targets, on CompileOptions::threads threads. The results are kept in context.lowerings and
/// context.kernels, from which plans are built. An error is ignored here: building the plan finds
/// it again and reports it. Does nothing if equal kernels are not shared.
Status lower_all(CompileContext& context, const std::vector<TargetFusion>& variants);

}  // namespace reprise
