// Finds where an element of a value lies in memory, unless a kernel computes or packs it.
#pragma once

#include "codegen/lower/evaluate/evaluator.h"

namespace reprise::lower {

struct StoredElement {
  graph::ValueId value = graph::kNone;  // whose memory it is
  Expr position;                        // row-major
};

/// The element of v at the index, through views of the group: nothing if the group computes it, if
/// its place depends on data, or if it is a number of the code or in a packed form. Writes no
/// instructions.
std::optional<StoredElement> stored_element(Evaluator& ev, const Group& group, graph::ValueId v,
                                            const Index& index);

}  // namespace reprise::lower
