// Schedules of recurrent layers.
#pragma once

#include "codegen/lower/launch/lowered.h"

namespace reprise::lower {

/// Why no kernel computes the layer; empty if one does.
std::string recurrent_refusal(const graph::Graph& g, const graph::Node& n);
Result<Lowered> lower_recurrent(const graph::Graph& g, const Group& group,
                                const TargetFacts& target, size_t choice,
                                LoopForm form = LoopForm::Short);

}  // namespace reprise::lower
