// Results whose size depends on data that a device computes.
#pragma once

#include "codegen/ops/row/op.h"

namespace reprise::ops {

/// Adds the host call CountedRows, which reads `count`, one I32, and gives it as its value to
/// `rows`, a symbol that an output of the node has as a dim.
Status give_size(Rewriter& rw, graph::ValueId count, const Expr& rows);

}  // namespace reprise::ops
