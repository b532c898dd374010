// Attention: two MatMuls with a softmax between them, recognised in core form and computed by one
// kernel that keeps no scores in memory (shaders/attention.h).
#pragma once

#include <optional>
#include <span>

#include "codegen/lower/group/cost.h"
#include "codegen/lower/launch/lowered.h"

namespace reprise::lower {

/// The region that ends with the MatMul `second`, if its left operand is a softmax of scores that
/// nothing else reads: the first MatMul, the elementwise nodes after it, the softmax, and `second`.
/// The nodes are in no particular order.
std::optional<Group> match_attention(const graph::Graph& g, graph::Node* second);

/// Why separate kernels are preferred on such a device, or empty if they are not. A pure function
/// of the group's shapes and the device facts.
std::string attention_refusal(const graph::Graph& g, const Group& group, const TargetFacts& device);

Result<Lowered> lower_attention(const graph::Graph& g, const Group& group,
                                const TargetFacts& target, size_t choice);

/// Replaces AttentionGrad by its formula where `always`, or where that is faster on all targets. It
/// stores the scores, so it is an option only if these take less memory than their operands.
Status choose_gradient_formulas(graph::Graph& g, std::span<const Target> targets, bool always);
/// The gradients of attention (AttentionGrad): a launch for those of the queries, and one for those
/// of keys and values.
Result<Lowered> lower_attention_grad(const graph::Graph& g, const Group& group,
                                     const TargetFacts& target, size_t choice);

}  // namespace reprise::lower
