// How large and how small index arithmetic gets: kernels compute indices in 32 bits, and divide
// numbers that are not negative.
#pragma once

#include <optional>

#include "runtime/base/expr.h"

namespace reprise::lower {

/// Expressions without kernel symbols that an index never passes; nothing where none is known.
struct IndexRange {
  std::optional<Expr> low, high;
};

/// `ranges` gives what a kernel symbol stays below (SymbolRange::below), nothing for the model's
/// symbols. Divisors are positive wherever a kernel runs: they are sizes and strides.
IndexRange index_range(const Expr& e, const SymbolRanges& ranges);

}  // namespace reprise::lower
