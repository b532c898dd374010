// Schedules of groups that are loops over elements or rows: one file each.
#pragma once

#include "codegen/lower/launch/lowered.h"

namespace reprise::lower {

Result<Lowered> lower_pointwise(const graph::Graph& g, const Group& group,
                                const TargetFacts& target, size_t choice = 0,
                                LoopForm form = LoopForm::Short);
Result<Lowered> lower_row(const graph::Graph& g, const Group& group, const TargetFacts& target,
                          size_t choice = 0, LoopForm form = LoopForm::Short);
/// Has one schedule.
Result<Lowered> lower_sort(const graph::Graph& g, const Group& group, const TargetFacts& target);
/// SampleRows. Has one schedule.
Result<Lowered> lower_sample(const graph::Graph& g, const Group& group, const TargetFacts& target);
/// Why devices cannot compute SampleRows; empty if they can.
std::string sample_refusal(const graph::Graph& g, const graph::Node& n);
Result<Lowered> lower_scan(const graph::Graph& g, const Group& group, const TargetFacts& target,
                           size_t choice = 0, LoopForm form = LoopForm::Short);

}  // namespace reprise::lower
