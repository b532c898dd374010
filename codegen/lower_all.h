// The part of compilation that several threads share: lowering and legalising every group.
#pragma once

#include <vector>

#include "codegen/compile_context.h"
#include "codegen/lower/fuse.h"
#include "codegen/lower/target.h"

namespace reprise {

struct TargetFusion {
  lower::Target target;
  lower::Fusion* fusion;
};

/// Gives all groups their keys, then lowers and legalises each once for all targets, on
/// CompileOptions::threads threads. What is made stays in context.lowerings and context.kernels,
/// where the plans find it; a group that cannot be lowered is left to them. Does nothing if equal
/// kernels are not shared.
Status lower_all(CompileContext& context, const std::vector<TargetFusion>& variants);

}  // namespace reprise
