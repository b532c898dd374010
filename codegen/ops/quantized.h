// Formulas of operators on quantised tensors, which stand for (q - zero point) * scale.
#pragma once

#include "codegen/ops/op_builder.h"

namespace reprise::ops {

/// q - zero point, in int32. `zero` may be kNone.
graph::ValueId centered(OpBuilder& c, graph::ValueId q, graph::ValueId zero);
/// The product of two tensors of int32, of which each may be a vector.
graph::ValueId integer_matmul(OpBuilder& c, graph::ValueId a, graph::ValueId b, const Shape& out);
/// round(sum * factor) + zero, saturated. `zero` has one element.
graph::ValueId requantize(OpBuilder& c, graph::ValueId sum, graph::ValueId factor,
                          graph::ValueId zero, DType to);

}  // namespace reprise::ops
