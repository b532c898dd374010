// Index expressions of a kernel: the ranges of their symbols, and the code that computes them.
//
// They use the graph's symbols for dimensions. Symbols from kLoopSymbols on ("kernel symbols")
// stand for loop variables and other run-time values of this kernel.
#pragma once

#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/kernel/build/builder.h"
#include "codegen/ops/row/element.h"

namespace reprise::lower {

using kernel::Val;
using kernel::Value;
using ops::Index;

inline constexpr SymbolId kLoopSymbols = 1 << 24;

/// Evaluator has the same functions, with comments.
class IndexCode {
 public:
  /// The arguments must outlive the object. `stored_counts`: the numbers of elements of the group's
  /// outputs, which are at most 2^31 in a run.
  IndexCode(const graph::Graph& g, std::vector<Expr> stored_counts, kernel::Builder& b);
  IndexCode(const IndexCode&) = delete;
  IndexCode& operator=(const IndexCode&) = delete;

  Expr symbol(Val v, const Expr& below);
  void set_symbol(const Expr& symbol, Val v);
  Value value(const Expr& e);
  Value number(const Expr& e);
  /// A scalar parameter that equal expressions share.
  Value param(const Expr& e);
  Value parameter(const Expr& e);
  int scalar(const Expr& e);
  Expr simplify(const Expr& e) const;
  void assume_not_empty(const Expr& count);
  Expr flatten(const Index& index, const Shape& shape) const;
  Index unflatten(const Expr& linear, const Shape& shape);
  void add_element(const Index& index, const Shape& shape);
  std::optional<Index> same_position(const Index& index, const Shape& from, const Shape& to) const;
  SymbolRange range(SymbolId id) const;

  /// Values that are computed in a scope are forgotten when it ends.
  void open_scope() { memo_.emplace_back(); }
  void close_scope() { memo_.pop_back(); }
  const Status& status() const { return status_; }
  const std::vector<Expr>& scalars() const { return scalars_; }

 private:
  struct LoopSymbol {
    Value value;
    Expr below;
  };
  int add_scalar(const Expr& e);
  Value size(const Expr& e);
  Value dividend(const Expr& e);
  std::optional<Expr> divisors_to_add(const Expr& dividend, const Expr& divisor) const;
  Value division(const Atom& a);
  Status beyond_32_bits(const Expr& e) const;
  Value atom_value(const Atom& a);

  const graph::Graph& g_;
  kernel::Builder& b_;
  std::vector<Expr> stored_counts_;
  std::vector<LoopSymbol> loop_symbols_;
  using ValueOf = std::unordered_map<Expr, Value, Expr::Hash>;
  std::vector<ValueOf> memo_;  // by scope
  ValueOf sizes_;              // of expressions over model symbols alone
  /// Positions and indices of the same elements. For these, flatten() and unflatten() are exact
  /// inverses, whatever simplification made of the divisions.
  struct Unflattened {
    Shape shape;
    Index index;
    Expr linear;
  };
  std::vector<Unflattened> unflattened_;
  std::set<SymbolId> positive_;    // model symbols that are not 0 where the kernel runs
  mutable Simplifier simplifier_;  // remembers results
  Status status_;
  std::vector<Expr> scalars_;
};

/// Whether a vector's lanes have different values of the expression.
bool uses_lane(const Expr& e);
/// The expression for one lane.
Expr with_lane(const Expr& e, int64_t lane);

}  // namespace reprise::lower
