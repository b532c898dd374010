// Tree ensembles in core form. TreeLeaves walks the trees: for samples [N, features], nodes [M, 4]
// and the roots [T] of trees it computes the leaves [T, N]. The core form then gathers the weights
// of the leaves and adds them. Neighbouring invocations walk through the same tree, so that its
// nodes stay in the cache.
//
// A node is {feature * 16 + outcomes, the bits of the value, the node if the outcome is not among
// them, the node if it is}. Comparing the feature with the value has the outcome 1 (less), 2
// (equal), 4 (greater) or 8 (either is NaN). A leaf leads to itself, so that `depth` steps end at
// one from every root. The leaves are the first nodes.
#pragma once

#include "codegen/ops/row/element.h"
#include "codegen/ops/row/op.h"

namespace reprise::ops {

/// These keep nodes on the host whose trees the core form cannot represent in float32.
Result<bool> decompose_tree_ensemble(Rewriter& rw);
Result<bool> decompose_tree_regressor(Rewriter& rw);
Result<bool> decompose_tree_classifier(Rewriter& rw);

Status infer_tree_leaves(InferContext& ctx);
Status tree_leaves_element(ElementContext& ctx);
double tree_leaves_reads(const graph::Graph& g, const graph::Node& n);

}  // namespace reprise::ops
