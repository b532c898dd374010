// Integer expressions over symbols: dimensions, element counts, offsets, grids (decision 7).
// An Expr is an immutable value in a normal form: a sum of terms, each an integer coefficient times
// a sorted product of atoms (symbols, and floordiv/mod/min/max of normal forms). Two expressions
// that are equal as polynomials over atoms compare equal, so b*s*256 == 256*s*b.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
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

class Expr {
 public:
  Expr() : Expr(0) {}
  Expr(int64_t constant);  // NOLINT(google-explicit-constructor): a literal is an expression
  static Expr symbol(SymbolId id);

  bool is_const() const;
  /// Only when is_const().
  int64_t value() const;
  bool is_const(int64_t v) const { return is_const() && value() == v; }
  /// The symbol, when the expression is exactly one.
  std::optional<SymbolId> as_symbol() const;

  friend Expr operator+(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a, const Expr& b);
  friend Expr operator*(const Expr& a, const Expr& b);
  friend bool operator==(const Expr& a, const Expr& b);
  Expr& operator+=(const Expr& o) { return *this = *this + o; }
  Expr& operator*=(const Expr& o) { return *this = *this * o; }

  /// Rounds towards minus infinity; b must not be zero when evaluated. Exact divisions simplify.
  static Expr floordiv(const Expr& a, const Expr& b);
  static Expr ceildiv(const Expr& a, const Expr& b);
  static Expr mod(const Expr& a, const Expr& b);
  static Expr min(const Expr& a, const Expr& b);
  static Expr max(const Expr& a, const Expr& b);

  /// a / b when b divides every term of a as a polynomial; nothing otherwise.
  static std::optional<Expr> divide_exact(const Expr& a, const Expr& b);
  /// Largest integer proven to divide the value for all symbol values (0 for the constant 0).
  int64_t known_divisor() const;

  /// Value with symbols[i] for symbol i. Fails on overflow of int64, division by zero, or a symbol
  /// outside the span or equal to INT64_MIN (unbound).
  Result<int64_t> eval(std::span<const int64_t> symbols) const;
  /// Replaces symbols; the function returns nothing to keep one.
  Expr substitute(const std::function<std::optional<Expr>(SymbolId)>& f) const;
  void collect_symbols(std::vector<SymbolId>& out) const;

  /// Deterministic text: "256*batch*seq + 1", "floordiv(seq, 2)", symbols by name from the table.
  std::string str(std::span<const Symbol> table) const;
  /// Reads what str() writes; unknown names are an error.
  static Result<Expr> parse(std::string_view text, std::span<const Symbol> table);

  /// Postfix code for packages: see expr.cpp for the opcodes. decode() checks everything.
  void encode(std::vector<int64_t>& out) const;
  static Result<Expr> decode(std::span<const int64_t> code);

  size_t hash() const;
  struct Rep;  // normal form; defined in expr.cpp

 private:
  explicit Expr(std::shared_ptr<const Rep> rep) : rep_(std::move(rep)) {}
  std::shared_ptr<const Rep> rep_;
};

using Shape = std::vector<Expr>;

Expr element_count(const Shape& s);
bool is_static(const Shape& s);
/// Dims of a static shape; only when is_static().
std::vector<int64_t> static_dims(const Shape& s);
std::string shape_str(const Shape& s, std::span<const Symbol> table);

}  // namespace reprise
