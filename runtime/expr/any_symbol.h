// Questions about the symbols of an expression, without a list of them.
#pragma once

#include "runtime/expr/expr.h"

namespace reprise {

/// Whether `f` holds for a symbol that occurs in the expression. It is not asked about the others
/// after that.
template <typename F>
bool any_symbol(const Expr& e, const F& f) {
  for (const Term& t : e.terms()) {
    for (const Atom& a : t.atoms()) {
      if (a.kind() == Atom::Kind::Overflow) continue;
      if (a.kind() == Atom::Kind::Symbol ? f(a.symbol())
                                         : any_symbol(a.lhs(), f) || any_symbol(a.rhs(), f))
        return true;
    }
  }
  return false;
}

}  // namespace reprise
