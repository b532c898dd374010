#include "codegen/lower/index_range.h"

namespace reprise::lower {

namespace {

using Below = std::function<std::optional<Expr>(SymbolId)>;

Expr atom_limit(const Atom& a, const Below& below) {
  switch (a.kind()) {
    case Atom::Kind::Symbol: {
      const auto limit = below(a.symbol());
      return limit ? index_limit(*limit - Expr(1), below) : a.expr();
    }
    case Atom::Kind::FloorDiv:
      // The divisor is a product of dims, which no kernel symbol enters.
      return Expr::floordiv(index_limit(a.lhs(), below), a.rhs());
    case Atom::Kind::Mod:
      return a.rhs() - Expr(1);
    case Atom::Kind::Min:
      return Expr::min(index_limit(a.lhs(), below), index_limit(a.rhs(), below));
    case Atom::Kind::Max:
      return Expr::max(index_limit(a.lhs(), below), index_limit(a.rhs(), below));
    case Atom::Kind::Overflow:
      break;
  }
  return Expr::overflow();
}

}  // namespace

Expr index_limit(const Expr& e, const Below& below) {
  Expr limit = e.constant();
  for (const Term& t : e.terms()) {
    if (t.coefficient < 0) continue;  // atoms of indices are not negative
    Expr product = t.coefficient;
    for (const Atom& a : t.atoms()) product *= atom_limit(a, below);
    limit += product;
  }
  return limit;
}

}  // namespace reprise::lower
