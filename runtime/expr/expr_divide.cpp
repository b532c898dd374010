// floordiv, mod, min and max of normal forms. Each rule is an identity for floored division; see
// expr.h for the list.
#include "runtime/expr/expr_bounds.h"
#include "runtime/expr/expr_rep.h"

namespace reprise {
namespace {

using Kind = Atom::Kind;

/// a / b if the coefficient and the atoms of b divide those of a.
std::optional<Expr> divide_term(const Term& a, const Term& b) {
  if (a.coefficient == std::numeric_limits<int64_t>::min() && b.coefficient == -1) {
    return std::nullopt;
  }
  if (a.coefficient % b.coefficient != 0) return std::nullopt;
  SmallVector<Atom> rest;
  const auto divisor = b.atoms();
  size_t j = 0;
  for (const Atom& x : a.atoms()) {
    if (j < divisor.size() && ExprAccess::compare(x, divisor[j]) == 0) {
      ++j;
    } else {
      rest.push_back(x);
    }
  }
  if (j != divisor.size()) return std::nullopt;
  const int64_t c = a.coefficient / b.coefficient;
  if (rest.empty()) return Expr(c);
  return ExprAccess::make({{c, ExprAccess::product(std::move(rest))}}, 0);
}

size_t part_count(const Expr& e) {
  return e.terms().size() + (e.constant() != 0 ? 1 : 0);
}

Expr make_atom(Kind kind, const Expr& a, const Expr& b) {
  return ExprAccess::atom(kind, a, b).expr();
}

/// A division that is being brought to normal form.
struct Division {
  Kind kind;
  const SymbolRanges* ranges;
  Expr quotient;   // added to a FloorDiv's result; a Mod ignores it
  Expr remainder;  // the part that is still to be divided

  Expr result(const Expr& rest) const { return kind == Kind::FloorDiv ? quotient + rest : rest; }
  Expr divide(const Expr& a, const Expr& b) const {
    return kind == Kind::FloorDiv ? floordiv_in(a, b, ranges) : mod_in(a, b, ranges);
  }
};

/// Moves divisible parts to the quotient. The constant of the remainder is then in [0, c).
Division split_constant(Kind kind, const SymbolRanges* ranges, const Expr& a, int64_t c) {
  SmallVector<Term> whole;
  SmallVector<Term> rest;
  for (const Term& t : a.terms()) {
    if (t.coefficient % c == 0) {
      whole.push_back({t.coefficient / c, t.product});
    } else {
      rest.push_back(t);
    }
  }
  return {kind, ranges, ExprAccess::make(std::move(whole), floor_div(a.constant(), c)),
          ExprAccess::make(std::move(rest), floor_mod(a.constant(), c))};
}

/// (g*x + k) / (g*m): cancels g; the rest k % g is rounded away.
std::optional<Expr> reduce_common_factor(const Division& d, int64_t c) {
  int64_t g = c;
  for (const Term& t : d.remainder.terms()) g = gcd_of(g, t.coefficient);
  if (g == 1) return std::nullopt;
  SmallVector<Term> terms(d.remainder.terms().begin(), d.remainder.terms().end());
  for (Term& t : terms) t.coefficient /= g;
  const int64_t k = d.remainder.constant();
  const Expr inner = d.divide(ExprAccess::make(std::move(terms), k / g), c / g);
  if (d.kind == Kind::FloorDiv) return d.quotient + inner;
  return Expr(g) * inner + Expr(k % g);
}

/// The terms that are not divisible by g, if their sum stays within one interval [j*g, (j+1)*g).
struct LowPart {
  Expr low;   // in [0, g)
  Expr high;  // remainder = g * high + low
};
std::optional<LowPart> split_low(const Division& d, int64_t g) {
  SmallVector<Term> low;
  SmallVector<Term> high;
  for (const Term& t : d.remainder.terms()) {
    if (t.coefficient % g == 0) {
      high.push_back({t.coefficient / g, t.product});
    } else {
      low.push_back(t);
    }
  }
  const int64_t k = floor_mod(d.remainder.constant(), g);
  const Expr low_sum = ExprAccess::make(std::move(low), k);
  const Interval range = bounds_in(low_sum, d.ranges);
  if (range.min == Interval().min || range.max == Interval().max) return std::nullopt;
  const int64_t j = floor_div(range.min, g);
  if (floor_div(range.max, g) != j) return std::nullopt;
  const Expr high_sum =
      ExprAccess::make(std::move(high), floor_div(d.remainder.constant(), g)) + Expr(j);
  return LowPart{low_sum - Expr(j) * Expr(g), high_sum};
}

/// (g*h + l) / b with l in [0, g), where g divides b: floordiv is h / (b/g), mod g*(h % (b/g)) + l.
std::optional<Expr> divide_by_range(const Division& d, int64_t content,
                                    const std::function<Expr(int64_t)>& divisor_over) {
  std::vector<int64_t> candidates;
  for (const Term& t : d.remainder.terms()) {
    const int64_t g = gcd_of(content, t.coefficient);
    if (g > 1) candidates.push_back(g);
  }
  candidates.push_back(content);
  std::sort(candidates.begin(), candidates.end(), std::greater<>());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  for (const int64_t g : candidates) {
    if (g <= 1) continue;
    const auto part = split_low(d, g);
    if (!part) continue;
    const Expr inner = d.divide(part->high, divisor_over(g));
    return d.kind == Kind::FloorDiv ? d.quotient + inner : Expr(g) * inner + part->low;
  }
  return std::nullopt;
}

/// In a dividend modulo b, k*mod(x, m) equals k*x if b divides k*m.
std::optional<Expr> drop_inner_mod(const Expr& a, const Expr& b) {
  for (const Term& t : a.terms()) {
    const Atom* atom = t.single();
    if (!atom || atom->kind() != Kind::Mod) continue;
    const Expr multiple = Expr(t.coefficient) * atom->rhs();
    if (multiple.is_overflow() || !Expr::divide_exact(multiple, b)) continue;
    return a - ExprAccess::single(t) + Expr(t.coefficient) * atom->lhs();
  }
  return std::nullopt;
}

/// The only term of e if its coefficient is 1 and it is a single atom of that kind, or else null.
const Atom* sole_atom(const Expr& e, Kind kind) {
  if (e.terms().size() != 1 || e.terms()[0].coefficient != 1) return nullptr;
  const Atom* a = e.terms()[0].single();
  return a && a->kind() == kind ? a : nullptr;
}

Expr divide_constant(Kind kind, const Expr& a, int64_t c, const SymbolRanges* ranges) {
  if (c == 1) return kind == Kind::FloorDiv ? a : Expr(0);
  const Division d = split_constant(kind, ranges, a, c);
  if (d.remainder.is_const()) return d.result(kind == Kind::FloorDiv ? Expr(0) : d.remainder);
  if (kind == Kind::Mod) {
    if (const auto x = drop_inner_mod(d.remainder, c)) return mod_in(*x, c, ranges);
  }
  if (const auto r = reduce_common_factor(d, c)) return *r;
  if (const auto r = divide_by_range(d, c, [c](int64_t g) { return Expr(c / g); })) return *r;
  if (kind == Kind::Mod) return make_atom(kind, d.remainder, c);
  if (const Atom* inner = sole_atom(d.remainder, Kind::FloorDiv)) {
    const Expr dividend = inner->lhs() + Expr(d.remainder.constant()) * inner->rhs();
    const Expr divisor = inner->rhs() * Expr(c);
    if (!dividend.is_overflow() && !divisor.is_overflow()) {
      return d.quotient + floordiv_in(dividend, divisor, ranges);
    }
  }
  const Atom* inner = sole_atom(d.remainder, Kind::Mod);
  if (inner && d.remainder.constant() == 0 && inner->rhs().is_const() && inner->rhs().value() > 0 &&
      inner->rhs().value() % c == 0) {
    return d.quotient +
           mod_in(floordiv_in(inner->lhs(), c, ranges), inner->rhs().value() / c, ranges);
  }
  return d.quotient + make_atom(kind, d.remainder, c);
}

/// Splits multiples of a symbolic divisor off the dividend.
Division split_symbolic(Kind kind, const SymbolRanges* ranges, const Expr& a, const Expr& b) {
  PolynomialDivision division = divide_polynomial(a, b);
  const bool simpler = part_count(division.remainder) < part_count(a) ||
                       (b.terms().size() == 1 && b.constant() == 0);
  if (!simpler || division.quotient.is_overflow() || division.remainder.is_overflow()) {
    return {kind, ranges, 0, a};
  }
  return {kind, ranges, std::move(division.quotient), std::move(division.remainder)};
}

/// The largest term that divides every part of both expressions.
Expr common_factor(const Expr& a, const Expr& b) {
  int64_t g = gcd_of(a.constant(), b.constant());
  for (const Expr* e : {&a, &b}) {
    for (const Term& t : e->terms()) g = gcd_of(g, t.coefficient);
  }
  if (a.constant() != 0 || b.constant() != 0) return g;
  Expr factor = g;
  for (const Atom& x : b.terms()[0].atoms()) {
    const Expr next = factor * x.expr();
    if (Expr::divide_exact(a, next) && Expr::divide_exact(b, next)) factor = next;
  }
  return factor;
}

int64_t content_of(const Expr& e) {
  int64_t g = gcd_of(e.constant(), 0);
  for (const Term& t : e.terms()) g = gcd_of(g, t.coefficient);
  return g;
}

Expr divide_symbolic(Kind kind, const Expr& a, const Expr& b, const SymbolRanges* ranges) {
  const Division d = split_symbolic(kind, ranges, a, b);
  if (d.remainder.is_const(0)) return d.result(0);
  if (kind == Kind::Mod) {
    if (const auto x = drop_inner_mod(d.remainder, b)) return mod_in(*x, b, ranges);
  }
  const Expr factor = common_factor(d.remainder, b);
  if (!factor.is_const(1)) {
    const auto x = Expr::divide_exact(d.remainder, factor);
    const auto y = Expr::divide_exact(b, factor);
    if (x && y) {
      const Expr inner = d.divide(*x, *y);
      return d.result(kind == Kind::FloorDiv ? inner : factor * inner);
    }
  }
  if (const Atom* inner = sole_atom(d.remainder, Kind::Mod);
      inner && d.remainder.constant() == 0 && inner->rhs() == b) {
    return d.result(kind == Kind::FloorDiv ? Expr(0) : d.remainder);
  }
  if (ranges && proven_within(d.remainder, b, *ranges)) {
    return d.result(kind == Kind::FloorDiv ? Expr(0) : d.remainder);
  }
  if (ranges && bounds_in(b, ranges).min > 0) {
    const auto r = divide_by_range(d, content_of(b),
                                   [&b](int64_t g) { return *Expr::divide_exact(b, Expr(g)); });
    if (r) return *r;
    const Atom* inner = kind == Kind::FloorDiv ? sole_atom(d.remainder, Kind::FloorDiv) : nullptr;
    if (inner) {
      const Expr dividend = inner->lhs() + Expr(d.remainder.constant()) * inner->rhs();
      const Expr divisor = inner->rhs() * b;
      if (!dividend.is_overflow() && !divisor.is_overflow()) {
        return d.quotient + floordiv_in(dividend, divisor, ranges);
      }
    }
  }
  return d.result(make_atom(kind, d.remainder, b));
}

Expr divide(Kind kind, const Expr& a, const Expr& b, const SymbolRanges* ranges) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  if (a.is_overflow() || b.is_overflow()) return Expr::overflow();
  if (b.is_const(0)) return make_atom(kind, a, b);
  if (a.is_const(0)) return 0;
  if (!b.is_const()) return divide_symbolic(kind, a, b, ranges);
  const int64_t c = b.value();
  if (a.is_const() && !(a.value() == kMin && c == -1)) {
    return kind == Kind::FloorDiv ? floor_div(a.value(), c) : floor_mod(a.value(), c);
  }
  if (c > 0) return divide_constant(kind, a, c, ranges);
  if (c == kMin) return make_atom(kind, a, b);
  const Expr negated = divide(kind, a * Expr(-1), Expr(-c), ranges);
  return kind == Kind::FloorDiv ? negated : negated * Expr(-1);
}

}  // namespace

PolynomialDivision divide_polynomial(const Expr& dividend, const Expr& divisor) {
  constexpr int kMaxSteps = 512;
  const Term& lead = divisor.terms()[0];
  const bool monomial = divisor.terms().size() == 1 && divisor.constant() == 0;
  Expr quotient;
  SmallVector<Term> remainder;
  if (monomial) {
    for (const Term& t : dividend.terms()) {
      if (const auto q = divide_term(t, lead)) {
        quotient += *q;
      } else {
        remainder.push_back(t);
      }
    }
    return {quotient, ExprAccess::make(std::move(remainder), dividend.constant())};
  }
  Expr rest = dividend;
  Expr kept;
  for (int step = 0; !rest.is_const(); ++step) {
    if (step == kMaxSteps || rest.is_overflow()) return {0, dividend};
    const Term t = rest.terms()[0];
    if (const auto q = divide_term(t, lead)) {
      quotient += *q;
      rest = rest - *q * divisor;
    } else {
      kept += ExprAccess::single(t);
      rest = rest - ExprAccess::single(t);
    }
  }
  return {quotient, kept + rest};
}

Expr floordiv_in(const Expr& a, const Expr& b, const SymbolRanges* ranges) {
  return divide(Kind::FloorDiv, a, b, ranges);
}

Expr mod_in(const Expr& a, const Expr& b, const SymbolRanges* ranges) {
  return divide(Kind::Mod, a, b, ranges);
}

Expr min_max_in(Kind kind, const Expr& a, const Expr& b, const SymbolRanges* ranges) {
  if (a.is_overflow() || b.is_overflow()) return Expr::overflow();
  const bool is_min = kind == Kind::Min;
  // Constants are handled first because their difference may overflow.
  if (a.is_const() && b.is_const())
    return is_min ? std::min(a.value(), b.value()) : std::max(a.value(), b.value());
  const Interval difference = bounds_in(a - b, ranges);
  if (difference.max <= 0) return is_min ? a : b;
  if (difference.min >= 0) return is_min ? b : a;
  for (const auto& [x, y] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    const Atom* inner = sole_atom(*x, kind);
    if (!inner || x->constant() != 0) continue;
    for (const auto& [u, v] :
         {std::pair(&inner->lhs(), &inner->rhs()), std::pair(&inner->rhs(), &inner->lhs())}) {
      if (*u == *y) return *x;
      if (u->is_const() && y->is_const()) {
        const int64_t c =
            is_min ? std::min(u->value(), y->value()) : std::max(u->value(), y->value());
        return min_max_in(kind, *v, c, ranges);
      }
    }
  }
  return ExprAccess::compare(a, b) > 0 ? make_atom(kind, a, b) : make_atom(kind, b, a);
}

std::optional<Expr> Expr::divide_exact(const Expr& a, const Expr& b) {
  if (a.is_overflow() || b.is_overflow() || b.is_const(0)) return std::nullopt;
  if (!b.is_const()) {
    PolynomialDivision d = divide_polynomial(a, b);
    if (!d.remainder.is_const(0) || d.quotient.is_overflow()) return std::nullopt;
    return std::move(d.quotient);
  }
  const int64_t c = b.value();
  if (c == 1) return a;
  if (c == -1) {
    Expr negated = a * b;
    return negated.is_overflow() ? std::nullopt : std::optional<Expr>(std::move(negated));
  }
  if (a.constant() % c != 0) return std::nullopt;
  SmallVector<Term> terms(a.terms().begin(), a.terms().end());
  for (Term& t : terms) {
    if (t.coefficient % c != 0) return std::nullopt;
    t.coefficient /= c;
  }
  return ExprAccess::make(std::move(terms), a.constant() / c);
}

Expr Expr::floordiv(const Expr& a, const Expr& b) {
  return floordiv_in(a, b, nullptr);
}

Expr Expr::mod(const Expr& a, const Expr& b) {
  return mod_in(a, b, nullptr);
}

Expr Expr::ceildiv(const Expr& a, const Expr& b) {
  if (auto exact = divide_exact(a, b)) return *std::move(exact);
  if (b.is_const() && b.value() > 0) return floordiv(a + Expr(b.value() - 1), b);
  return Expr(0) - floordiv(Expr(0) - a, b);
}

Expr Expr::min(const Expr& a, const Expr& b) {
  return min_max_in(Kind::Min, a, b, nullptr);
}

Expr Expr::max(const Expr& a, const Expr& b) {
  return min_max_in(Kind::Max, a, b, nullptr);
}

}  // namespace reprise
