// The range of index arithmetic. Kernels compute indices in 32 bits, and their divisions need
// dividends that are not negative.
#pragma once

#include <optional>

#include "runtime/expr/expr.h"

namespace reprise::lower {

/// Inclusive bounds of an index, as expressions without kernel symbols. Absent if unknown.
struct IndexRange {
  std::optional<Expr> low, high;
};

/// `ranges` returns the upper bound of a kernel symbol in SymbolRange::below, which it leaves empty
/// for the model's symbols. Divisors are sizes and strides, hence positive wherever a kernel runs.
IndexRange index_range(const Expr& e, const SymbolRanges& ranges);

}  // namespace reprise::lower
