// How large index arithmetic gets: kernels compute indices in 32 bits.
#pragma once

#include <functional>

#include "runtime/base/expr.h"

namespace reprise::lower {

/// An expression without kernel symbols that e never passes, where e is a non-negative index;
/// overflow when none is known. `below` gives what a kernel symbol stays under, nothing for the
/// model's symbols.
Expr index_limit(const Expr& e, const std::function<std::optional<Expr>(SymbolId)>& below);

}  // namespace reprise::lower
