#include "runtime/expr/expr_bounds.h"

namespace reprise {
namespace {

constexpr int64_t kLow = std::numeric_limits<int64_t>::min();   // unbounded below
constexpr int64_t kHigh = std::numeric_limits<int64_t>::max();  // unbounded above

bool infinite(int64_t v) {
  return v == kLow || v == kHigh;
}

/// The product of two ends of intervals. Infinite ends absorb everything but zero.
int64_t multiply(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  const int64_t limit = (a < 0) != (b < 0) ? kLow : kHigh;
  int64_t r = 0;
  if (infinite(a) || infinite(b) || __builtin_mul_overflow(a, b, &r)) return limit;
  return r;
}

Interval multiply(const Interval& a, const Interval& b) {
  const auto ends = {multiply(a.min, b.min), multiply(a.min, b.max), multiply(a.max, b.min),
                     multiply(a.max, b.max)};
  return {std::min(ends), std::max(ends)};
}

Interval add(const Interval& a, const Interval& b) {
  Interval r;
  if (a.min == kLow || b.min == kLow || __builtin_add_overflow(a.min, b.min, &r.min)) r.min = kLow;
  if (a.max == kHigh || b.max == kHigh || __builtin_add_overflow(a.max, b.max, &r.max)) {
    r.max = kHigh;
  }
  return r;
}

Interval floordiv_bounds(const Interval& a, const Interval& b) {
  if (b.min < 1) return {};
  const auto quotient = [](int64_t x, int64_t y) {
    if (infinite(x)) return x;
    if (y == kHigh) return x < 0 ? int64_t{-1} : int64_t{0};
    return floor_div(x, y);
  };
  return {quotient(a.min, a.min >= 0 ? b.max : b.min), quotient(a.max, a.max >= 0 ? b.min : b.max)};
}

Interval mod_bounds(const Interval& a, const Interval& b) {
  if (b.min < 1) return {};
  if (a.min >= 0 && a.max < b.min) return a;
  const int64_t below = b.max == kHigh ? kHigh : b.max - 1;
  return {0, a.min >= 0 ? std::min(a.max, below) : below};
}

Interval symbol_bounds(SymbolId id, const SymbolRanges* ranges) {
  if (!ranges) return {};
  const SymbolRange r = (*ranges)(id);
  Interval i{r.min, r.max};
  if (r.below && r.below->is_const() && r.below->value() != kLow) {
    i.max = std::min(i.max, r.below->value() - 1);
  }
  return i;
}

Interval atom_bounds(const Atom& a, const SymbolRanges* ranges) {
  if (a.kind() == Atom::Kind::Symbol) return symbol_bounds(a.symbol(), ranges);
  if (a.kind() == Atom::Kind::Overflow) return {};
  // Without ranges only a modulus has bounds, so there is no need to visit the operands.
  if (!ranges && a.kind() == Atom::Kind::FloorDiv) return {};
  const Interval r = bounds_in(a.rhs(), ranges);
  const Interval l = bounds_in(a.lhs(), ranges);
  switch (a.kind()) {
    case Atom::Kind::FloorDiv:
      return floordiv_bounds(l, r);
    case Atom::Kind::Mod:
      return mod_bounds(l, r);
    case Atom::Kind::Min:
      return {std::min(l.min, r.min), std::min(l.max, r.max)};
    case Atom::Kind::Max:
      return {std::max(l.min, r.min), std::max(l.max, r.max)};
    case Atom::Kind::Symbol:
    case Atom::Kind::Overflow:
      break;
  }
  return {};
}

/// An upper bound of the atom as an expression: the atom itself if no tighter bound is known.
Expr upper_limit(const Atom& a, const SymbolRanges& ranges) {
  if (a.kind() == Atom::Kind::Symbol) {
    const SymbolRange r = ranges(a.symbol());
    if (r.below) return *r.below - Expr(1);
  }
  if (a.kind() == Atom::Kind::Mod && bounds_in(a.rhs(), &ranges).min >= 1) {
    return a.rhs() - Expr(1);
  }
  return a.expr();
}

}  // namespace

Interval bounds_in(const Expr& e, const SymbolRanges* ranges) {
  Interval sum{e.constant(), e.constant()};
  for (const Term& t : e.terms()) {
    Interval product{t.coefficient, t.coefficient};
    for (const Atom& a : t.atoms()) product = multiply(product, atom_bounds(a, ranges));
    sum = add(sum, product);
    if (sum.min == kLow && sum.max == kHigh) break;
  }
  return sum;
}

bool proven_within(const Expr& a, const Expr& b, const SymbolRanges& ranges) {
  if (bounds_in(a, &ranges).min < 0) return false;
  Expr upper = a.constant();
  for (const Term& t : a.terms()) {
    bool non_negative = t.coefficient > 0;
    for (const Atom& x : t.atoms()) non_negative &= atom_bounds(x, &ranges).min >= 0;
    Expr product = t.coefficient;
    for (const Atom& x : t.atoms()) product *= non_negative ? upper_limit(x, ranges) : x.expr();
    upper += product;
  }
  const Expr slack = b - Expr(1) - upper;
  return !slack.is_overflow() && bounds_in(slack, &ranges).min >= 0;
}

}  // namespace reprise
