// Formulas of operators on quantised tensors, which stand for (q - zero point) * scale.
#pragma once

#include "codegen/ops/row/op_builder.h"

namespace reprise::ops {

/// q - zero point, in int32. `zero` may be kNone.
graph::ValueId centered(OpBuilder& c, graph::ValueId q, graph::ValueId zero);
/// Repeats each element of a scale or zero point `block` times along an axis of the tensor that it
/// belongs to, of which that axis has `size` elements.
graph::ValueId repeat_blocks(OpBuilder& c, graph::ValueId v, int64_t axis, int64_t block,
                             const Expr& size);

/// Numbers of 2, 4 or 8 bits as bytes: the first `columns` of each row, of which each begins with a
/// byte.
HostTensor unpacked(const HostTensor& packed, int64_t rows, int64_t columns, int64_t row_bytes,
                    int64_t bits);

/// A matrix of packed numbers as the weight of a GEMM: unpacked and transposed, in 4 bits where
/// they fit. If there are no zero points, the numbers are less their middle. Graphs of a
/// compilation share it (codegen/ops/row/made_constants.h).
HostTensor weight_columns(const HostTensor& packed, int64_t rows, int64_t columns,
                          int64_t row_bytes, int64_t bits, bool has_zeros);

}  // namespace reprise::ops
