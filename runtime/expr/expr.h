// Integer expressions over symbols, for dimensions, element counts, offsets and grids. Sizes are
// symbolic everywhere, so that one package serves all sizes.
//
// An Expr is an immutable value in a normal form: a sum of terms, each an integer coefficient times
// a sorted product of atoms (symbols, and floordiv/mod/min/max of normal forms). Two expressions
// that are equal as polynomials over atoms compare equal, so b*s*256 == 256*s*b.
//
// Simplifications hold for all integer values of the symbols (c constant, x and y any expression):
//   floordiv(c*x + y, c) = x + floordiv(y, c)
//   mod(c*x + y, c) = mod(y, c)
//   floordiv(floordiv(x, c), d) = floordiv(x, c*d)
//   floordiv(mod(x, c*d), c) = mod(floordiv(x, c), d)
//   c*floordiv(x, c) + mod(x, c) = x
// The same hold for symbolic divisors. Divisions by a constant keep the constant of their operand
// in [0, c). simplify() does more if the symbols have ranges.
//
// Constants that leave int64, and expressions beyond fixed limits (1024 atoms, depth 64), become
// the overflow expression: it is not constant, absorbs every operation and fails in eval().
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace reprise {

using SymbolId = int32_t;

/// What is known about a symbol. A run refuses values that are outside [min, max] or not a multiple
/// of `divisor`.
struct Symbol {
  std::string name;  // the model's dim_param; a generated name ("d0") for unnamed dims
  int64_t min = 0;
  int64_t max = (int64_t{1} << 31) - 1;
  int64_t divisor = 1;
};

class Atom;
struct Term;
struct SymbolRange;
using SymbolRanges = std::function<SymbolRange(SymbolId)>;

/// Inclusive. INT64_MIN and INT64_MAX stand for "unbounded".
struct Interval {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
};

class Expr {
 public:
  Expr() = default;
  Expr(int64_t constant)  // NOLINT(google-explicit-constructor): a literal is an expression
      : constant_(constant) {}
  static Expr symbol(SymbolId id);
  static Expr overflow();

  bool is_const() const { return rep_ == nullptr; }
  bool is_overflow() const;
  /// Requires is_const().
  int64_t value() const { return constant_; }
  bool is_const(int64_t v) const { return is_const() && value() == v; }
  /// The symbol, if the expression is exactly one symbol.
  std::optional<SymbolId> as_symbol() const;

  friend Expr operator+(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a, const Expr& b);
  friend Expr operator*(const Expr& a, const Expr& b);
  friend bool operator==(const Expr& a, const Expr& b);
  Expr& operator+=(const Expr& o) { return *this = *this + o; }
  Expr& operator*=(const Expr& o) { return *this = *this * o; }

  // The normal form: value = sum of terms() + constant(). The operators above and Atom::expr()
  // rebuild an expression from its parts.
  /// Sorted by descending degree. The span lives as long as this expression.
  std::span<const Term> terms() const;
  int64_t constant() const { return constant_; }

  /// Rounds towards minus infinity. Evaluation fails if b is zero. Exact divisions simplify.
  static Expr floordiv(const Expr& a, const Expr& b);
  /// Rounds up.
  static Expr ceildiv(const Expr& a, const Expr& b);
  /// a - b * floordiv(a, b). It has the sign of b, so it is never negative for positive b.
  static Expr mod(const Expr& a, const Expr& b);
  static Expr min(const Expr& a, const Expr& b);
  static Expr max(const Expr& a, const Expr& b);

  /// a / b if b divides every term of a as a polynomial.
  static std::optional<Expr> divide_exact(const Expr& a, const Expr& b);
  /// Largest integer proven to divide the value for all symbol values; 0 for the constant 0.
  int64_t known_divisor() const;
  /// The same, with the divisors of the symbols in the table. Nothing is assumed about symbols with
  /// ids beyond the table.
  int64_t known_divisor(std::span<const Symbol> table) const;

  /// An interval that contains every value that the expression takes for symbols in these ranges.
  Interval bounds(const SymbolRanges& ranges) const;
  /// The same value for all symbol values in their ranges, with fewer floordiv, mod, min and max:
  /// floordiv(64*i + j, 64) = i for j in [0, 64), mod(s*i + j, s) = j for j in [0, s).
  Expr simplify(const SymbolRanges& ranges) const;

  /// The value with symbols[i] for symbol i. Fails on a division by zero, on a symbol that is
  /// outside the span or equal to INT64_MIN (unbound), and if the value or an intermediate sum
  /// overflows int64.
  Result<int64_t> eval(std::span<const int64_t> symbols) const;
  /// Replaces each symbol for which the function returns an expression.
  Expr substitute(const std::function<std::optional<Expr>(SymbolId)>& f) const;
  /// Each symbol as often as it occurs.
  std::vector<SymbolId> symbols() const;
  /// Appends symbols().
  void collect_symbols(std::vector<SymbolId>& out) const;
  /// -1 if there is no symbol.
  SymbolId largest_symbol() const;

  /// Deterministic text, such as "256*batch*seq + 1" or "floordiv(seq, 2)". Symbols have their
  /// names from the table, in double quotes if a name is not an identifier. Symbols beyond the
  /// table are $id.
  std::string str(std::span<const Symbol> table) const;
  /// Parses the output of str(). Unknown names are an error.
  static Result<Expr> parse(std::string_view text, std::span<const Symbol> table);

  /// Postfix code for packages; expr_code.cpp has the opcodes. decode() checks everything except
  /// that symbol ids are in range; it only checks that they are not negative.
  void encode(std::vector<int64_t>& out) const;
  static Result<Expr> decode(std::span<const int64_t> code);

  size_t hash() const;
  struct Hash {
    size_t operator()(const Expr& e) const { return e.hash(); }
  };
  struct Rep;  // terms, hash and sizes; defined in expr_rep.h

 private:
  friend struct ExprAccess;
  int64_t constant_ = 0;
  std::shared_ptr<const Rep> rep_;  // null for constants, which therefore never allocate
};

/// The range of one symbol, both ends inclusive.
struct SymbolRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
  /// If set, the value is less than this expression, such as the symbolic extent of a loop.
  std::optional<Expr> below;
};

/// A factor of a term: a symbol, or an operation on two expressions in normal form.
class Atom {
 public:
  enum class Kind : uint8_t { Symbol, FloorDiv, Mod, Min, Max, Overflow };
  Kind kind() const { return kind_; }
  /// Requires Kind::Symbol.
  SymbolId symbol() const { return symbol_; }
  // The operands of FloorDiv and Mod (dividend, divisor), Min and Max (in any order).
  const Expr& lhs() const;
  const Expr& rhs() const;
  /// This atom as an expression.
  Expr expr() const;

  struct Operands;

 private:
  friend struct ExprAccess;
  Kind kind_ = Kind::Symbol;
  SymbolId symbol_ = 0;
  std::shared_ptr<const Operands> operands_;
};

/// Expr::simplify() for many expressions: operations that occur in several of them are simplified
/// once.
class Simplifier {
 public:
  explicit Simplifier(SymbolRanges ranges);
  ~Simplifier();
  Expr simplify(const Expr& e);
  /// Call this if the range of a symbol changes that was in an expression before.
  void ranges_changed();

 private:
  struct Results;
  std::optional<Expr> atom(const Atom& a);
  std::optional<Expr> operation(const Atom& a);

  SymbolRanges ranges_;
  std::unique_ptr<Results> results_;
};

/// coefficient * product of atoms. The coefficient is never 0. There is at least one atom, and
/// atoms are sorted.
struct Term {
  int64_t coefficient = 1;
  struct Product;
  std::shared_ptr<const Product> product;  // shared between expressions
  std::span<const Atom> atoms() const;
  /// The atom if there is exactly one, or else null.
  const Atom* single() const;
};

using Shape = std::vector<Expr>;

Expr element_count(const Shape& s);
bool is_static(const Shape& s);
/// The dims of a static shape. Requires is_static().
std::vector<int64_t> static_dims(const Shape& s);
std::string shape_str(const Shape& s, std::span<const Symbol> table);

}  // namespace reprise
