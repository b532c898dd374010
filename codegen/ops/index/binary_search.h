// Binary search in sorted tensors, within the definition of an element.
#pragma once

#include "codegen/ops/row/element.h"

namespace reprise::ops {

/// A line along the last axis of input number `input`, whose elements are in ascending order.
struct SortedLine {
  size_t input = 0;
  Index before;  // the index of the line: that of its elements without the last axis
  Expr length;
};

/// The number of elements of the line that are less than `value` or, if `or_equal`, not greater. It
/// is I32. Only elements of the line are loaded, also if they are not in order.
Result<kernel::Val> elements_before(ElementContext& ctx, const SortedLine& line, kernel::Val value,
                                    bool or_equal);

/// The elements of a line that a search reads, for the cost.
double search_reads(const graph::Graph& g, const Expr& length);

}  // namespace reprise::ops
