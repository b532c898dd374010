// Attention: two MatMuls with a softmax between them, recognised in core form and computed by one
// kernel that keeps no scores in memory (shaders/attention.h).
#pragma once

#include <optional>

#include "codegen/lower/cost.h"
#include "codegen/lower/lower.h"

namespace reprise::lower {

/// The region of the MatMul `second` if its left operand is a softmax of scores that nothing else
/// reads: first MatMul, what follows it elementwise, softmax, and `second`, in no order.
std::optional<Group> match_attention(const graph::Graph& g, graph::Node* second);

/// Why separate kernels are preferred on such a device, or empty: a pure function of the group's
/// shapes and the predicate.
std::string attention_refusal(const graph::Graph& g, const Group& group, const TargetFacts& device);

Result<Lowered> lower_attention(const graph::Graph& g, const Group& group,
                                const TargetFacts& target, size_t choice);
/// See lower::check.
Status check_attention(const graph::Graph& g, const Group& group);

}  // namespace reprise::lower
