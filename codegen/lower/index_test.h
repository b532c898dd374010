// The question that fusion asks before it admits a node: do the values of the group line up?
#pragma once

#include "codegen/lower/group/group.h"

namespace reprise::lower {

/// Whether the group's values can be computed when the results of its anchor and reductions are
/// available at their own index only. An error names the value that cannot.
///
/// Evaluates the definitions of the nodes for one symbolic index. No schedule or target takes part,
/// and no kernel is built: the instructions of the definitions are discarded.
Status test_indices(const graph::Graph& g, const Group& group);

// --- for rows of the table of lowerings ---
/// The result of the anchor is at an index over the group's domain.
Status test_result(const graph::Graph& g, const Group& group);
Status test_scan(const graph::Graph& g, const Group& group);
Status test_rows(const graph::Graph& g, const Group& group);
Status test_attention(const graph::Graph& g, const Group& group);

}  // namespace reprise::lower
