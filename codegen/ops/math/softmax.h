// The softmax as a formula in other operators.
#pragma once

#include "codegen/ops/row/op_builder.h"

namespace reprise::ops {

/// The softmax of x over `axes`, and its parts. A row of -inf gives NaN, as ONNX defines it.
struct Softmax {
  /// Writes the parts: x - max, its exponentials and their sum.
  Softmax(OpBuilder& c, OpBuilder::V x, const std::vector<int64_t>& axes)
      : max(c.reduce("ReduceMax", x, axes)),
        difference(c.sub(x, max)),
        exponentials(c.op("Exp", {difference})),
        sum(c.reduce("ReduceSum", exponentials, axes)) {}

  OpBuilder::V value(OpBuilder& c) const { return c.div(exponentials, sum); }

  OpBuilder::V max, difference, exponentials, sum;
};

}  // namespace reprise::ops
