#include "codegen/lower/evaluate/index_code.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "codegen/graph/symbol_ranges.h"
#include "codegen/lower/evaluate/index_range.h"
#include "runtime/base/small_blocks.h"
#include "runtime/expr/any_symbol.h"

namespace reprise::lower {

using kernel::ScalarOp;
using kernel::Ty;

namespace {

bool uses_loop_symbols(const Expr& e) {
  return e.largest_symbol() >= kLoopSymbols;
}

Expr with_positive_divisors(const Expr& e, const SymbolRanges& ranges);

Expr with_positive_divisors(const Atom& a, const SymbolRanges& ranges) {
  const auto operand = [&](const Expr& e) { return with_positive_divisors(e, ranges); };
  const auto divisor = [&](const Expr& e) {
    const Expr d = operand(e);
    return d.bounds(ranges).min < 1 ? Expr::max(d, 1) : d;
  };
  switch (a.kind()) {
    case Atom::Kind::FloorDiv:
      return Expr::floordiv(operand(a.lhs()), divisor(a.rhs()));
    case Atom::Kind::Mod:
      return Expr::mod(operand(a.lhs()), divisor(a.rhs()));
    case Atom::Kind::Min:
      return Expr::min(operand(a.lhs()), operand(a.rhs()));
    case Atom::Kind::Max:
      return Expr::max(operand(a.lhs()), operand(a.rhs()));
    case Atom::Kind::Symbol:
    case Atom::Kind::Overflow:
      break;
  }
  return a.expr();
}

/// Replaces divisors d that may be less than 1 by max(d, 1): equal for positive divisors, and
/// defined for all others.
Expr with_positive_divisors(const Expr& e, const SymbolRanges& ranges) {
  Expr sum = e.constant();
  for (const Term& t : e.terms()) {
    Expr product = t.coefficient;
    for (const Atom& a : t.atoms()) product *= with_positive_divisors(a, ranges);
    sum += product;
  }
  return sum;
}

}  // namespace

bool uses_lane(const Expr& e) {
  if (e.largest_symbol() < kLoopSymbols) return false;
  return any_symbol(e, [](SymbolId s) { return s == kLoopSymbols; });
}

Expr with_lane(const Expr& e, int64_t lane) {
  if (!uses_lane(e)) return e;
  return e.substitute([&](SymbolId s) -> std::optional<Expr> {
    if (s == kLoopSymbols) return Expr(lane);
    return std::nullopt;
  });
}

IndexCode::IndexCode(const graph::Graph& g, std::vector<Expr> stored_counts, kernel::Builder& b)
    : g_(g),
      b_(b),
      stored_counts_(std::move(stored_counts)),
      simplifier_([this](SymbolId id) { return range(id); }) {
  loop_symbols_.push_back({Value(), Expr(4)});  // the lane
  open_scope();
}

SymbolRange IndexCode::range(SymbolId id) const {
  SymbolRange r;
  if (id < kLoopSymbols) {
    const Symbol& s = g_.symbols[static_cast<size_t>(id)];
    r.min = positive_.count(id) != 0 ? std::max<int64_t>(s.min, 1) : s.min;
    r.max = s.max;
    return r;
  }
  const Expr& below = loop_symbols_[static_cast<size_t>(id - kLoopSymbols)].below;
  r.min = 0;
  if (below.is_const()) r.max = below.value() - 1;
  r.below = below;
  return r;
}

void IndexCode::assume_not_empty(const Expr& count) {
  if (count.terms().size() != 1 || count.constant() != 0) return;
  for (const Atom& a : count.terms()[0].atoms()) {
    if (a.kind() == Atom::Kind::Symbol) positive_.insert(a.symbol());
  }
  simplifier_.ranges_changed();
}

Expr IndexCode::simplify(const Expr& e) const {
  return simplifier_.simplify(e);
}

Expr IndexCode::symbol(Val v, const Expr& below) {
  if (below.is_const(1)) return 0;
  if (const auto c = b_.as_const(v)) return Expr(*c);
  loop_symbols_.push_back({Value(b_, v), below});
  return Expr::symbol(kLoopSymbols + static_cast<SymbolId>(loop_symbols_.size()) - 1);
}

void IndexCode::set_symbol(const Expr& symbol, Val v) {
  if (symbol.is_const()) return;
  const std::vector<SymbolId> ids = symbol.symbols();
  loop_symbols_[static_cast<size_t>(ids[0] - kLoopSymbols)].value = Value(b_, v);
}

Expr IndexCode::flatten(const Index& index, const Shape& shape) const {
  for (const Unflattened& u : unflattened_) {
    if (u.index == index && u.shape == shape) return u.linear;
  }
  Expr linear = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    linear = linear * shape[d];
    if (!shape[d].is_const(1)) linear += index[d];
  }
  return simplify(linear);
}

Index IndexCode::unflatten(const Expr& linear, const Shape& shape) {
  for (const Unflattened& u : unflattened_) {
    if (u.linear == linear && u.shape == shape) return u.index;
  }
  Index index(shape.size());
  Expr stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    Expr e = Expr::floordiv(linear, stride);
    // The outermost dim needs no mod, as `linear` is in range.
    bool outermost = true;
    for (size_t o = 0; o < d; ++o) outermost &= shape[o].is_const(1);
    if (shape[d].is_const(1)) {
      e = 0;
    } else if (!outermost) {
      e = Expr::mod(e, shape[d]);
    }
    index[d] = simplify(e);
    stride = stride * shape[d];
  }
  // A single element is at position 0, whatever expression `linear` is: there is nothing to record.
  const bool single =
      std::all_of(shape.begin(), shape.end(), [](const Expr& dim) { return dim.is_const(1); });
  if (!single) unflattened_.push_back({shape, index, linear});
  return index;
}

void IndexCode::add_element(const Index& index, const Shape& shape) {
  const bool known =
      std::any_of(unflattened_.begin(), unflattened_.end(),
                  [&](const Unflattened& u) { return u.index == index && u.shape == shape; });
  if (!known) unflattened_.push_back({shape, index, flatten(index, shape)});
}

std::optional<Index> IndexCode::same_position(const Index& index, const Shape& from,
                                              const Shape& to) const {
  for (const Unflattened& a : unflattened_) {
    if (a.index != index || a.shape != from) continue;
    for (const Unflattened& b : unflattened_) {
      if (b.linear == a.linear && b.shape == to) return b.index;
    }
  }
  return std::nullopt;
}

Value IndexCode::param(const Expr& e) {
  return b_.param(scalar(e));
}

Value IndexCode::parameter(const Expr& e) {
  return b_.param(add_scalar(e));
}

int IndexCode::scalar(const Expr& e) {
  const auto known = std::find(scalars_.begin(), scalars_.end(), e);
  return known == scalars_.end() ? add_scalar(e) : static_cast<int>(known - scalars_.begin());
}

int IndexCode::add_scalar(const Expr& e) {
  scalars_.push_back(e);
  return b_.scalar("n" + std::to_string(scalars_.size() - 1), Ty::I32);
}

Status IndexCode::beyond_32_bits(const Expr& e) const {
  return unsupported("an index reaches " + e.str(g_.symbols) +
                     ", kernels compute indices in 32 bits; use smaller inputs");
}

/// The value of e, which is about to be divided. Sums and products may wrap on the way to an index,
/// as the index itself is within its buffer, but a dividend must not. Values that are never stored
/// may have more than 2^31 elements.
Value IndexCode::dividend(const Expr& e) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  const auto ranges = [this](SymbolId id) { return range(id); };
  if (e.bounds(ranges).max <= kMax) return value(e);
  const std::optional<Expr> limit = index_range(e, ranges).high;
  if (!limit) return value(e);
  const auto covers = [&](const Expr& count) {
    const Expr room = count - Expr(1) - *limit;
    return !room.is_overflow() && room.bounds(ranges).min >= 0;
  };
  const bool stored = std::any_of(stored_counts_.begin(), stored_counts_.end(), covers);
  if (stored || uses_loop_symbols(*limit)) return value(e);
  if (limit->is_overflow() || (limit->is_const() && limit->value() > kMax)) {
    status_ = beyond_32_bits(*limit);
  } else if (!limit->is_const()) {
    size(*limit);  // a scalar parameter, whose range a run checks
  }
  return value(e);
}

/// How many times the divisor must be added to the dividend so that the sum is not negative.
/// Nothing if the dividend has no known lower bound.
std::optional<Expr> IndexCode::divisors_to_add(const Expr& dividend, const Expr& divisor) const {
  const auto ranges = [this](SymbolId id) { return range(id); };
  if (dividend.bounds(ranges).min >= 0) return Expr(0);
  const std::optional<Expr> low = index_range(dividend, ranges).low;
  if (!low || low->is_overflow()) return std::nullopt;
  if (low->bounds(ranges).min >= 0) return Expr(0);
  return Expr(0) - Expr::floordiv(*low, divisor);
}

/// Expressions round towards minus infinity, Div and Rem towards zero. They agree if the dividend
/// is not negative. Divisors are sizes and strides, hence positive wherever the kernel runs.
Value IndexCode::division(const Atom& a) {
  const Expr& divisor = a.rhs();
  const bool quotient = a.kind() == Atom::Kind::FloorDiv;
  const std::optional<Expr> more = divisors_to_add(a.lhs(), divisor);
  if (!more) {
    const Value x = dividend(a.lhs());
    const Value y = value(divisor);
    const Value remainder = b_.scalar_op(ScalarOp::Mod, {x, y});
    return quotient ? b_.div(b_.sub(x, remainder), y) : remainder;
  }
  const Value x = dividend(a.lhs() + *more * divisor);
  const Value y = value(divisor);
  if (!quotient) return b_.rem(x, y);
  return b_.sub(b_.div(x, y), value(*more));
}

Value IndexCode::atom_value(const Atom& a) {
  switch (a.kind()) {
    case Atom::Kind::Symbol:
      return loop_symbols_[static_cast<size_t>(a.symbol() - kLoopSymbols)].value;
    case Atom::Kind::FloorDiv:
    case Atom::Kind::Mod:
      return division(a);
    case Atom::Kind::Min:
      return b_.min(value(a.lhs()), value(a.rhs()));
    case Atom::Kind::Max:
      return b_.max(value(a.lhs()), value(a.rhs()));
    case Atom::Kind::Overflow:
      return b_.i32(0);  // refused when the plan is bound
  }
  return {};
}

/// A scalar parameter. If a dim is 0, the elements whose index divides by it do not exist, but the
/// launch may have others: the host must be able to compute the expression all the same.
Value IndexCode::size(const Expr& e) {
  if (const auto it = sizes_.find(e); it != sizes_.end()) return it->second;
  const Value v = param(with_positive_divisors(e, graph::symbol_ranges(g_)));
  sizes_.emplace(e, v);
  return v;
}

Value IndexCode::number(const Expr& e) {
  return e.is_const() ? value(e) : param(e);
}

Value IndexCode::value(const Expr& e) {
  if (e.is_const()) {
    const bool fits = std::in_range<int32_t>(e.value());
    if (!fits) status_ = beyond_32_bits(e);
    return b_.i32(fits ? e.value() : 0);
  }
  if (!uses_loop_symbols(e)) return size(e);
  for (const ValueOf& scope : memo_) {
    if (const auto it = scope.find(e); it != scope.end()) return it->second;
  }
  // Collect coefficients (over model symbols) per product of run-time atoms.
  Expr uniform = e.constant();
  SmallVector<std::pair<Expr, Expr>> parts;  // product of run-time atoms, coefficient
  for (const Term& t : e.terms()) {
    Expr run_time = 1;
    Expr coefficient = t.coefficient;
    for (const Atom& a : t.atoms()) {
      const Expr x = a.expr();
      (uses_loop_symbols(x) ? run_time : coefficient) *= x;
    }
    if (run_time.is_const(1)) {
      uniform += coefficient;
      continue;
    }
    auto it = std::find_if(parts.begin(), parts.end(),
                           [&](const auto& p) { return p.first == run_time; });
    if (it == parts.end()) {
      parts.emplace_back(run_time, coefficient);
    } else {
      it->second += coefficient;
    }
  }
  Value sum;
  for (const auto& [product, coefficient] : parts) {
    Value v;
    for (const Atom& a : product.terms()[0].atoms()) {
      const Value x = atom_value(a);
      v = v ? b_.mul(v, x) : x;
    }
    if (!coefficient.is_const(1)) v = b_.mul(v, value(coefficient));
    sum = sum ? b_.add(sum, v) : v;
  }
  if (!uniform.is_const(0)) sum = sum ? b_.add(sum, value(uniform)) : value(uniform);
  memo_.back().emplace(e, sum);
  return sum;
}

}  // namespace reprise::lower
