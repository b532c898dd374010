// Integer expressions over symbols: dimensions, element counts, offsets, grids (decision 7).
// An Expr is an immutable value in a normal form: a sum of terms, each an integer coefficient times
// a sorted product of atoms (symbols, and floordiv/mod/min/max of normal forms). Two expressions
// that are equal as polynomials over atoms compare equal, so b*s*256 == 256*s*b.
//
// Simplifications hold for all integer values of the symbols (c constant, x and y any expression):
//   floordiv(c*x + y, c) = x + floordiv(y, c)       mod(c*x + y, c) = mod(y, c)
//   floordiv(floordiv(x, c), d) = floordiv(x, c*d)  floordiv(mod(x, c*d), c) = mod(floordiv(x, c),
//   d) c*floordiv(x, c) + mod(x, c) = x                and the same for symbolic divisors.
// Divisions by a constant keep the constant of their operand in [0, c). simplify() does more with
// ranges of the symbols.
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

/// What is known of a symbol. Values outside [min, max] or not divisible are refused at run time.
struct Symbol {
  std::string name;  // the model's dim_param, or made up ("d0") for unnamed dims
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
  /// Only when is_const().
  int64_t value() const { return constant_; }
  bool is_const(int64_t v) const { return is_const() && value() == v; }
  /// The symbol, when the expression is exactly one.
  std::optional<SymbolId> as_symbol() const;

  friend Expr operator+(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a, const Expr& b);
  friend Expr operator*(const Expr& a, const Expr& b);
  friend bool operator==(const Expr& a, const Expr& b);
  Expr& operator+=(const Expr& o) { return *this = *this + o; }
  Expr& operator*=(const Expr& o) { return *this = *this * o; }

  // The normal form, for walking: value = sum of terms() + constant(). Rebuild with the operators
  // above and Atom::expr().
  /// Sorted: higher degree first. The span lives as long as this expression.
  std::span<const Term> terms() const;
  int64_t constant() const { return constant_; }

  /// Rounds towards minus infinity; b must not be zero when evaluated. Exact divisions simplify.
  static Expr floordiv(const Expr& a, const Expr& b);
  /// Rounds up.
  static Expr ceildiv(const Expr& a, const Expr& b);
  /// a - b * floordiv(a, b): the sign of b, never negative for positive b.
  static Expr mod(const Expr& a, const Expr& b);
  static Expr min(const Expr& a, const Expr& b);
  static Expr max(const Expr& a, const Expr& b);

  /// a / b when b divides every term of a as a polynomial; nothing otherwise.
  static std::optional<Expr> divide_exact(const Expr& a, const Expr& b);
  /// Largest integer proven to divide the value for all symbol values (0 for the constant 0).
  int64_t known_divisor() const;
  /// The same with what the table says of symbols (ids beyond it: nothing).
  int64_t known_divisor(std::span<const Symbol> table) const;

  /// Values that the expression can take given ranges of its symbols. Never too narrow.
  Interval bounds(const SymbolRanges& ranges) const;
  /// The same value for all symbol values in their ranges, with fewer floordiv, mod, min and max:
  /// floordiv(64*i + j, 64) = i for j in [0, 64), mod(s*i + j, s) = j for j in [0, s).
  Expr simplify(const SymbolRanges& ranges) const;

  /// Value with symbols[i] for symbol i; intermediate sums count as well. Fails on overflow of
  /// int64, division by zero, or a symbol outside the span or equal to INT64_MIN (unbound).
  Result<int64_t> eval(std::span<const int64_t> symbols) const;
  /// Replaces symbols; the function returns nothing to keep one.
  Expr substitute(const std::function<std::optional<Expr>(SymbolId)>& f) const;
  /// Each symbol as often as it occurs; collect_symbols() appends them.
  std::vector<SymbolId> symbols() const;
  void collect_symbols(std::vector<SymbolId>& out) const;
  /// -1 where there is none.
  SymbolId largest_symbol() const;

  /// Deterministic text: "256*batch*seq + 1", "floordiv(seq, 2)", symbols by name from the table
  /// (in double quotes where a name is not an identifier), as $id beyond it.
  std::string str(std::span<const Symbol> table) const;
  /// Reads what str() writes; unknown names are an error.
  static Result<Expr> parse(std::string_view text, std::span<const Symbol> table);

  /// Postfix code for packages: see expr_code.cpp for the opcodes. decode() checks everything but
  /// the range of symbol ids (they are at least 0).
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
  std::shared_ptr<const Rep> rep_;  // null for constants, so that they never allocate
};

/// What a SymbolRanges function says of one symbol.
struct SymbolRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
  /// The value is less than this expression: the symbolic extent of a loop.
  std::optional<Expr> below;
};

/// A factor of a term: a symbol, or an operation on two expressions in normal form.
class Atom {
 public:
  enum class Kind : uint8_t { Symbol, FloorDiv, Mod, Min, Max, Overflow };
  Kind kind() const { return kind_; }
  /// Only for Kind::Symbol.
  SymbolId symbol() const { return symbol_; }
  // Operands; only for FloorDiv, Mod (dividend, divisor), Min and Max (any order).
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

/// coefficient * product of atoms. The coefficient is never 0; atoms are sorted, at least one.
struct Term {
  int64_t coefficient = 1;
  struct Product;
  std::shared_ptr<const Product> product;  // shared between expressions
  std::span<const Atom> atoms() const;
  /// The atom, when there is exactly one.
  const Atom* single() const;
};

using Shape = std::vector<Expr>;

Expr element_count(const Shape& s);
bool is_static(const Shape& s);
/// Dims of a static shape; only when is_static().
std::vector<int64_t> static_dims(const Shape& s);
std::string shape_str(const Shape& s, std::span<const Symbol> table);

}  // namespace reprise
