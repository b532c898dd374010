// Ranges of expressions. Internal to Expr.
#pragma once

#include "runtime/expr/expr_rep.h"

namespace reprise {

/// Whether 0 <= a < b for all symbol values in their ranges.
bool proven_within(const Expr& a, const Expr& b, const SymbolRanges& ranges);

}  // namespace reprise
