// Broadcasting of dims. What only a run can decide becomes a guard.
#include <algorithm>
#include <optional>
#include <utility>

#include "codegen/ops/row/dims.h"
#include "codegen/ops/row/op.h"
#include "codegen/ops/row/shape_arith.h"
#include "runtime/expr/any_symbol.h"

namespace reprise::ops {

namespace {

using graph::DimGuard;
using graph::Graph;
using GuardKind = DimGuard::Kind;

/// The dim that two dims broadcast to, given that they are equal or one of them is 1. This is the
/// larger one, except that 0 and 1 broadcast to 0.
Expr broadcast_size(const Expr& a, const Expr& b, std::span<const Symbol> table) {
  const Expr some = min_of(min_of(a, b, table), 1, table);
  return max_of(a, b, table) * some;
}

bool other_than_one(int64_t v) {
  return v != 1;
}
bool above_one(int64_t v) {
  return v > 1;
}

/// Whether a run may have a = 1 and a b with accepts(b). If both depend on one symbol, this tries
/// small values of it that no guard refuses; for larger values, the bounds of a decide whether it
/// is 1.
bool may_be_one_beside(const Graph& g, const Expr& a, const Expr& b, bool (*accepts)(int64_t)) {
  if (!may_equal(a, 1, g.symbols) || a.known_divisor(g.symbols) > 1) return false;
  SymbolId id = -1;  // the only symbol of both
  const auto another = [&id](SymbolId s) {
    if (id < 0) id = s;
    return s != id;
  };
  if (any_symbol(a, another) || any_symbol(b, another)) return true;
  if (id < 0) return accepts(b.value());
  constexpr int64_t kTried = 64;
  const Symbol& s = g.symbols[static_cast<size_t>(id)];
  if (s.min < -kTried) return true;
  const int64_t last = std::min(s.max, std::max<int64_t>(s.min, 0) + kTried);
  std::vector<int64_t> values(g.symbols.size(), 0);
  const auto refused = [&](const DimGuard& guard) {
    if (guard.kind != GuardKind::Equal || any_symbol(guard.a, another) ||
        any_symbol(guard.b, another))
      return false;
    const auto x = guard.a.eval(values);
    const auto y = guard.b.eval(values);
    return x.ok() && y.ok() && *x != *y;
  };
  for (int64_t v = s.min; v <= last; ++v) {
    values[static_cast<size_t>(id)] = v;
    const auto x = a.eval(values);
    if (x.ok() && *x != 1) continue;
    if (std::any_of(g.guards.begin(), g.guards.end(), refused)) continue;
    const auto y = b.eval(values);
    if (!x.ok() || !y.ok() || accepts(*y)) return true;
  }
  if (last == s.max) return false;
  const Interval rest = a.bounds([&](SymbolId) {
    return SymbolRange{last + 1, s.max, std::nullopt};
  });
  return rest.min <= 1 && rest.max >= 1;
}

/// Whether `dim` may be 1 in a run in which `beside` is not 1.
bool may_repeat(const Graph& g, const Expr& dim, const Expr& beside) {
  return may_be_one_beside(g, dim, beside, other_than_one);
}

/// The dim that two dims broadcast to, if that is possible without a new symbol.
std::optional<Expr> known_broadcast(const Graph& g, const Expr& a, const Expr& b) {
  if (a == b || !may_repeat(g, a, b)) return a;
  if (!may_repeat(g, b, a)) return b;
  return std::nullopt;
}

bool broadcasts(const DimGuard& guard) {
  return guard.kind == GuardKind::Broadcast || guard.kind == GuardKind::BroadcastTo;
}

/// The guard for equal dims that a guard for broadcast dims has become, if it has.
std::optional<DimGuard> as_equality(const Graph& g, const DimGuard& guard) {
  if (!broadcasts(guard)) return std::nullopt;
  const Expr a = canonical(g, guard.a);
  const Expr b = canonical(g, guard.b);
  DimGuard equal;
  equal.node = guard.node;
  if (guard.kind == GuardKind::BroadcastTo) {
    if (may_repeat(g, a, b)) return std::nullopt;
    equal.a = a;
    equal.b = b;
    equal.a_is = guard.a_is;
    equal.b_is = guard.b_is;
  } else {
    const auto plain = known_broadcast(g, a, b);
    if (!plain) return std::nullopt;
    equal.a = canonical(g, guard.result);
    equal.b = *plain;
  }
  if (equal.a == equal.b || !has_rewrite_rule(g, equal.a, equal.b)) return std::nullopt;
  return equal;
}

}  // namespace

void simplify_broadcasts(Graph& g) {
  for (size_t i = 0; i < g.guards.size();) {
    auto equal = as_equality(g, g.guards[i++]);
    if (!equal) continue;
    propagate_equality(g, equal->a, equal->b);
    g.guards.push_back(*std::move(equal));
    g.equal_dims.reset();
    i = 0;  // other broadcasts may now be simpler
  }
}

bool broadcasts_to(const Graph& g, const Expr& from, const Expr& to) {
  std::vector<Expr> parts{to};
  const auto add = [&](const Expr& e) {
    if (std::find(parts.begin(), parts.end(), e) == parts.end()) parts.push_back(e);
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == from) return true;
    for (const DimGuard& guard : g.guards) {
      if (!broadcasts(guard) || canonical(g, guard.result) != parts[i]) continue;
      add(canonical(g, guard.a));
      add(canonical(g, guard.b));
    }
  }
  return false;
}

Status broadcast_shape(const InferContext& ctx, const Shape& from, const Shape& to,
                       const std::string& what) {
  bool fits = from.size() <= to.size();
  for (size_t d = 0; fits && d < from.size(); ++d)
    fits = ctx.broadcast_to(from[d], to[to.size() - from.size() + d], what).ok();
  if (fits) return {};
  return ctx.invalid(what + " " + ctx.str(from) + " does not broadcast to " + ctx.str(to));
}

Expr broadcast_position(const Graph& g, const Expr& at, const Expr& from, const Expr& to) {
  if (from.is_const(1)) return 0;
  if (from == to || !may_be_one_beside(g, from, to, above_one) || same_size(g, from, to)) return at;
  return at * clamp(from - 1, 0, 1, g.symbols);
}

Result<Expr> InferContext::broadcast_dim(const Expr& left, const Expr& right) const {
  const Expr a = size(left);
  const Expr b = size(right);
  if (a == b || b.is_const(1)) return a;
  if (a.is_const(1)) return b;
  const bool a_repeats = may_repeat(g_, a, b);
  const bool b_repeats = may_repeat(g_, b, a);
  if ((!a_repeats && !b_repeats) || same_size(g_, a, b)) return unify(a, b, "dims");
  if (broadcasts_to(g_, a, b)) return b;
  if (broadcasts_to(g_, b, a)) return a;
  if (!a_repeats) {
    add_guard(GuardKind::BroadcastTo, b, a, a);
    return a;
  }
  if (!b_repeats) {
    add_guard(GuardKind::BroadcastTo, a, b, b);
    return b;
  }
  const Expr result = g_.derived_symbol("broadcast", broadcast_size(a, b, g_.symbols));
  add_guard(GuardKind::Broadcast, a, b, result);
  return result;
}

Status InferContext::broadcast_to(const Expr& from, const Expr& to, const std::string& what) const {
  const Expr a = size(from);
  const Expr b = size(to);
  if (a == b || a.is_const(1)) return {};
  if (!may_repeat(g_, a, b)) return unify(a, b, what).status();
  if (!broadcasts_to(g_, a, b) && !same_size(g_, a, b)) add_guard(GuardKind::BroadcastTo, a, b, b);
  return {};
}

Result<Shape> InferContext::broadcast(std::span<const Shape> shapes) const {
  size_t rank = 0;
  for (const Shape& s : shapes) rank = std::max(rank, s.size());
  Shape out(rank, Expr(1));
  for (const Shape& s : shapes) {
    const size_t skip = rank - s.size();
    for (size_t i = 0; i < s.size(); ++i) {
      Expr& o = out[skip + i];
      auto merged = broadcast_dim(o, s[i]);
      if (!merged.ok()) {
        std::string all;
        for (const Shape& each : shapes) all += (all.empty() ? "" : " and ") + str(each);
        return invalid("shapes " + all + " do not broadcast: " + o.str(g_.symbols) + " against " +
                       s[i].str(g_.symbols));
      }
      o = *merged;
    }
  }
  return out;
}

}  // namespace reprise::ops
