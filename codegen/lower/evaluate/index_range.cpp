#include "codegen/lower/evaluate/index_range.h"

#include <utility>

#include "runtime/expr/any_symbol.h"

namespace reprise::lower {

namespace {

bool not_negative(const Expr& e, const SymbolRanges& ranges) {
  return !e.is_overflow() && e.bounds(ranges).min >= 0;
}

bool uses_kernel_symbols(const Expr& e, const SymbolRanges& ranges) {
  return any_symbol(e, [&](SymbolId s) { return ranges(s).below.has_value(); });
}

using Operation = Expr (*)(const Expr&, const Expr&);

std::optional<Expr> joined(Operation f, const std::optional<Expr>& a,
                           const std::optional<Expr>& b) {
  if (!a || !b) return std::nullopt;
  return f(*a, *b);
}

IndexRange atom_range(const Atom& a, const SymbolRanges& ranges) {
  if (a.kind() == Atom::Kind::Overflow) return {Expr::overflow(), Expr::overflow()};
  if (a.kind() == Atom::Kind::Symbol) {
    const SymbolRange r = ranges(a.symbol());
    if (!r.below) return {a.expr(), a.expr()};
    return {Expr(r.min), index_range(*r.below - Expr(1), ranges).high};
  }
  if (a.kind() == Atom::Kind::Mod) return {Expr(0), index_range(a.rhs() - Expr(1), ranges).high};
  const IndexRange l = index_range(a.lhs(), ranges);
  const IndexRange r = index_range(a.rhs(), ranges);
  switch (a.kind()) {
    case Atom::Kind::FloorDiv:
      if (uses_kernel_symbols(a.rhs(), ranges)) return {};
      return {joined(Expr::floordiv, l.low, r.low), joined(Expr::floordiv, l.high, r.high)};
    case Atom::Kind::Min:
      return {joined(Expr::min, l.low, r.low), joined(Expr::min, l.high, r.high)};
    default:
      return {joined(Expr::max, l.low, r.low), joined(Expr::max, l.high, r.high)};
  }
}

Expr product(const Expr& a, const Expr& b) {
  return a * b;
}
Expr sum(const Expr& a, const Expr& b) {
  return a + b;
}

/// The range of the product of a term's atoms, without its coefficient. Known only if at most one
/// atom may be negative.
IndexRange product_range(const Term& t, const SymbolRanges& ranges) {
  IndexRange all{Expr(1), Expr(1)};
  std::optional<IndexRange> other;
  for (const Atom& a : t.atoms()) {
    IndexRange r = atom_range(a, ranges);
    if (!not_negative(a.expr(), ranges)) {
      if (other) return {};
      other = std::move(r);
      continue;
    }
    if (!r.low || !not_negative(*r.low, ranges)) r.low = Expr(0);
    all = {joined(product, all.low, r.low), joined(product, all.high, r.high)};
  }
  if (!other) return all;
  if (t.atoms().size() == 1) return *other;
  return {joined(product, all.high, joined(Expr::min, other->low, Expr(0))),
          joined(product, all.high, joined(Expr::max, other->high, Expr(0)))};
}

}  // namespace

IndexRange index_range(const Expr& e, const SymbolRanges& ranges) {
  if (!uses_kernel_symbols(e, ranges)) return {e, e};
  IndexRange out{Expr(e.constant()), Expr(e.constant())};
  for (const Term& t : e.terms()) {
    IndexRange r = product_range(t, ranges);
    if (t.coefficient < 0) std::swap(r.low, r.high);
    const Expr factor = t.coefficient;
    out.low = joined(sum, out.low, joined(product, factor, r.low));
    out.high = joined(sum, out.high, joined(product, factor, r.high));
  }
  return out;
}

}  // namespace reprise::lower
