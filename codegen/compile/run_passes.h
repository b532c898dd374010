// Runs the passes of a compilation on its graph.
#pragma once

#include <string_view>

#include "codegen/compile/compile_context.h"
#include "codegen/passes/pass.h"

namespace reprise {

Status run_passes(CompileContext& context, passes::PassReport& report);

}  // namespace reprise
