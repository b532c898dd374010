// The representation of Expr, shared by its source files only.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/integer_math.h"
#include "runtime/base/small_blocks.h"
#include "runtime/expr/expr.h"

namespace reprise {

struct Atom::Operands {
  Expr lhs, rhs;
  uint64_t hash = 0;
};

struct Term::Product {
  SmallVector<Atom> atoms;
  uint64_t hash = 0;
  uint32_t size = 0;   // number of atoms, including those nested in other atoms
  uint32_t depth = 0;  // nesting of operations
  SymbolId largest_symbol = -1;
  bool has_remainder = false;  // an atom is a Mod, or a FloorDiv of one
  bool has_quotient = false;   // an atom is a FloorDiv
  bool overflow = false;
};

struct Expr::Rep {
  SmallVector<Term> terms;
  uint64_t hash = 0;  // of the terms without the constant
  uint32_t size = 0;
  uint32_t depth = 0;
  SymbolId largest_symbol = -1;
  bool has_remainder = false;  // a term has one
  bool has_quotient = false;   // likewise
  bool overflow = false;
};

/// Constructs normal forms from parts in normal form.
struct ExprAccess {
  static constexpr uint32_t kMaxSize = 1024;
  static constexpr uint32_t kMaxDepth = 64;

  static Atom symbol_atom(SymbolId id);
  static Atom atom(Atom::Kind kind, Expr lhs, Expr rhs);
  static std::shared_ptr<const Term::Product> product(SmallVector<Atom> sorted_atoms);
  static Expr single(const Term& t);
  /// Terms must be sorted and distinct, with coefficients other than 0.
  static Expr make(SmallVector<Term> terms, int64_t constant);
  static Expr with_constant(const Expr& e, int64_t constant);
  static const Expr::Rep* rep(const Expr& e) { return e.rep_.get(); }
  static const Atom::Operands* operands(const Atom& a) { return a.operands_.get(); }

  // Total orders; 0 means equal.
  static int compare(const Expr& a, const Expr& b);
  static int compare(const Atom& a, const Atom& b);
  /// Graded lexicographic order, negative if a is higher. Exact division relies on it being a
  /// monomial order.
  static int compare(const Term::Product& a, const Term::Product& b);
};

/// dividend = quotient * divisor + remainder as polynomials. No term of the remainder is divisible
/// by the leading term of the divisor.
struct PolynomialDivision {
  Expr quotient, remainder;
};
PolynomialDivision divide_polynomial(const Expr& dividend, const Expr& divisor);

// The operations with ranges of symbols; null: nothing is known about any symbol.
Expr floordiv_in(const Expr& a, const Expr& b, const SymbolRanges* ranges);
Expr mod_in(const Expr& a, const Expr& b, const SymbolRanges* ranges);
Expr min_max_in(Atom::Kind kind, const Expr& a, const Expr& b, const SymbolRanges* ranges);
Interval bounds_in(const Expr& e, const SymbolRanges* ranges);

inline uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdu;
  return h ^ (h >> 32);
}

/// Greatest common divisor of the magnitudes. INT64_MIN counts as 2^62, which divides it.
inline int64_t gcd_of(int64_t a, int64_t b) {
  const auto magnitude = [](int64_t v) {
    return v == std::numeric_limits<int64_t>::min() ? int64_t{1} << 62 : (v < 0 ? -v : v);
  };
  a = magnitude(a);
  b = magnitude(b);
  while (b != 0) a = std::exchange(b, a % b);
  return a;
}

}  // namespace reprise
