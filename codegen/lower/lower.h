// Lowers a fused group to its launches. The schedule is a pure function of the group's shapes and
// the target's facts.
#pragma once

#include "codegen/lower/group/group_lowering.h"
#include "codegen/lower/launch/lowered.h"

namespace reprise::lower {

/// `choice` is an index into Lowered::choices; past its end is an error. `form` may be Long only if
/// needs_long_form() is not always 0.
Result<Lowered> lower(const graph::Graph& g, const Group& group, const TargetFacts& target,
                      size_t choice = 0, LoopForm form = LoopForm::Short);
/// 1 at sizes at which the short form's loops are longer than the target's devices execute, so that
/// the long form runs. 0 at all other sizes, and if there is no long form.
Expr needs_long_form(const graph::Graph& g, const Lowered& short_form, const Group& group,
                     const TargetFacts& target);

}  // namespace reprise::lower
