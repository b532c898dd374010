// Schedules of recurrent layers.
#pragma once

#include "codegen/lower/launch/lowered.h"

namespace reprise::lower {

Result<Lowered> lower_recurrent(const graph::Graph& g, const Group& group,
                                const TargetFacts& target, size_t choice,
                                LoopForm form = LoopForm::Short);

}  // namespace reprise::lower
