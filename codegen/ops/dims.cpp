#include "codegen/ops/dims.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "codegen/ops/op.h"
#include "codegen/ops/shape_arith.h"

namespace reprise::ops {

namespace {

using graph::DimGuard;
using graph::Graph;
using GuardKind = plan::DimGuard::Kind;
using SourceKind = plan::SymbolSource::Kind;

std::vector<SymbolId> symbols_of(const Expr& e) {
  std::vector<SymbolId> symbols;
  e.collect_symbols(symbols);
  return symbols;
}

bool contains(const Expr& e, SymbolId id) {
  const auto symbols = symbols_of(e);
  return std::find(symbols.begin(), symbols.end(), id) != symbols.end();
}

SymbolRanges ranges_of(const Graph& g) {
  return [&g](SymbolId s) {
    const Symbol& known = g.symbols[static_cast<size_t>(s)];
    return SymbolRange{known.min, known.max, std::nullopt};
  };
}

/// c, when e is min(symbol, c).
std::optional<int64_t> upper_limit(const Expr& e, SymbolId id) {
  if (e.terms().size() != 1 || e.constant() != 0 || e.terms()[0].coefficient != 1) return {};
  const Atom* a = e.terms()[0].single();
  if (a == nullptr || a->kind() != Atom::Kind::Min) return {};
  const bool left = a->lhs().as_symbol() == id;
  const Expr& other = left ? a->rhs() : a->lhs();
  if (!other.is_const() || !(left || a->rhs().as_symbol() == id)) return {};
  return other.value();
}

void rewrite_dims(Graph& g, const std::function<Expr(const Expr&)>& f) {
  const auto each = [&](std::vector<Expr>& list) {
    for (Expr& e : list) {
      if (!e.is_const()) e = f(e);
    }
  };
  for (size_t i = 0; i < g.values().size(); ++i) {
    graph::Value& v = g.value(static_cast<graph::ValueId>(i));
    each(v.shape);
    if (v.elements) each(*v.elements);
  }
  for (const auto& n : g.nodes()) {
    AttrMap attrs = n->attrs;
    for (const auto& [name, attr] : attrs) {
      if (const auto* list = std::get_if<std::vector<Expr>>(&attr)) {
        auto copy = *list;
        each(copy);
        n->attrs.set(name, std::move(copy));
      }
    }
  }
}

/// When a run knows the value: -1 from its inputs' dims, else the latest symbol that a host call
/// gives.
SymbolId known_after(const Graph& g, const Expr& e) {
  SymbolId latest = -1;
  for (const SymbolId s : symbols_of(e)) {
    const plan::SymbolSource& source = g.symbol_sources[static_cast<size_t>(s)];
    if (source.kind == SourceKind::InputDim) continue;
    latest =
        std::max(latest, source.kind == SourceKind::Derived ? known_after(g, source.value) : s);
  }
  return latest;
}

bool of_inputs(const Graph& g, SymbolId s) {
  return g.symbol_sources[static_cast<size_t>(s)].kind == SourceKind::InputDim;
}

size_t length(const Expr& e) {
  std::vector<int64_t> code;
  e.encode(code);
  return code.size();
}

/// What a guard makes superfluous, a symbol or an operation, with what it equals. That must be
/// known no later in a run.
struct Rule {
  Expr from, to;
};

/// Dims of inputs are expressions over such dims. Of two symbols the later one goes, which may be a
/// fresh one.
std::optional<Rule> symbol_rule(const Graph& g, const Expr& lhs, const Expr& rhs) {
  const auto id = lhs.as_symbol();
  const auto other = rhs.as_symbol();
  if (!id || contains(rhs, *id) || (other && *other > *id)) return std::nullopt;
  const auto symbols = symbols_of(rhs);
  const bool inputs_only =
      std::all_of(symbols.begin(), symbols.end(), [&g](SymbolId s) { return of_inputs(g, s); });
  if (of_inputs(g, *id) && !inputs_only) return std::nullopt;
  if (known_after(g, rhs) > known_after(g, lhs)) return std::nullopt;
  return Rule{lhs, rhs};
}

/// The operation that an expression is.
const Atom* as_operation(const Expr& e) {
  if (e.terms().size() != 1 || e.constant() != 0 || e.terms()[0].coefficient != 1) return nullptr;
  const Atom* a = e.terms()[0].single();
  return a == nullptr || a->kind() == Atom::Kind::Symbol ? nullptr : a;
}

/// e with `to` in place of the operation `from` outside of other operations.
Expr with_operation(const Expr& e, const Expr& from, const Expr& to) {
  Expr sum = e.constant();
  for (const Term& t : e.terms()) {
    Expr product = t.coefficient;
    for (const Atom& a : t.atoms()) product *= a.expr() == from ? to : a.expr();
    sum += product;
  }
  return sum;
}

int64_t content(const Expr& e) {
  int64_t g = e.constant();
  for (const Term& t : e.terms()) g = std::gcd(g, t.coefficient);
  return std::abs(g);
}

std::optional<Rule> operation_rule(const Graph& g, const Expr& lhs, const Expr& rhs) {
  if (as_operation(lhs) == nullptr || known_after(g, rhs) > known_after(g, lhs))
    return std::nullopt;
  if (with_operation(rhs, lhs, 0) != rhs) return std::nullopt;
  return Rule{lhs, rhs};
}

std::optional<Rule> rule_of(const Graph& g, Expr a, Expr b) {
  const int64_t common = std::gcd(content(a), content(b));
  if (common > 1) {
    a = Expr::divide_exact(a, common).value_or(a);
    b = Expr::divide_exact(b, common).value_or(b);
  }
  if (auto rule = symbol_rule(g, a, b)) return rule;
  if (auto rule = symbol_rule(g, b, a)) return rule;
  if (length(a) < length(b)) std::swap(a, b);
  if (auto rule = operation_rule(g, a, b)) return rule;
  return operation_rule(g, b, a);
}

Expr apply(const Rule& rule, const Expr& e) {
  const auto id = rule.from.as_symbol();
  if (!id) return with_operation(e, rule.from, rule.to);
  return e.substitute(
      [&](SymbolId s) { return s == *id ? std::optional<Expr>(rule.to) : std::nullopt; });
}

/// The larger of two dims, but 0 beside a 1: what dims that are equal, or either of them 1,
/// broadcast to.
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

/// Whether some run may have a = 1 with such a b beside it. Where both follow from one symbol, its
/// small values are tried, but for those that a guard refuses: of larger ones a dim is not 1.
bool one_beside(const Graph& g, const Expr& a, const Expr& b, bool (*such)(int64_t)) {
  if (!may_equal(a, 1, g.symbols) || a.known_divisor(g.symbols) > 1) return false;
  std::vector<SymbolId> used = symbols_of(a);
  b.collect_symbols(used);
  if (used.empty()) return such(b.value());
  const SymbolId id = used[0];
  const auto another = [id](SymbolId s) { return s != id; };
  if (std::any_of(used.begin(), used.end(), another)) return true;
  constexpr int64_t kTried = 64;
  const Symbol& s = g.symbols[static_cast<size_t>(id)];
  if (s.min < -kTried) return true;
  const int64_t last = std::min(s.max, std::max<int64_t>(s.min, 0) + kTried);
  std::vector<int64_t> values(g.symbols.size(), 0);
  const auto refused = [&](const DimGuard& guard) {
    if (guard.kind != GuardKind::Equal) return false;
    for (const Expr& e : {guard.a, guard.b}) {
      const auto symbols = symbols_of(e);
      if (std::any_of(symbols.begin(), symbols.end(), another)) return false;
    }
    const auto x = guard.a.eval(values);
    const auto y = guard.b.eval(values);
    return x.ok() && y.ok() && *x != *y;
  };
  for (int64_t v = s.min; v <= last; ++v) {
    values[static_cast<size_t>(id)] = v;
    if (std::any_of(g.guards.begin(), g.guards.end(), refused)) continue;
    const auto x = a.eval(values);
    if (x.ok() && *x != 1) continue;
    const auto y = b.eval(values);
    if (!x.ok() || !y.ok() || such(*y)) return true;
  }
  if (last == s.max) return false;
  const Interval rest = a.bounds([&](SymbolId) {
    return SymbolRange{last + 1, s.max, std::nullopt};
  });
  return rest.min <= 1 && rest.max >= 1;
}

/// Whether a dim of 1 may stand for another one of any size.
bool repeats(const Graph& g, const Expr& dim, const Expr& beside) {
  return one_beside(g, dim, beside, other_than_one);
}

/// What two dims broadcast to, where that needs no symbol of its own.
std::optional<Expr> plain_broadcast(const Graph& g, const Expr& a, const Expr& b) {
  if (a == b || !repeats(g, a, b)) return a;
  if (!repeats(g, b, a)) return b;
  return std::nullopt;
}

// Numbers of Expr::encode. Sizes of models are far below: a dim that a convolution with strides
// gave has ten.
constexpr size_t kLongestDim = 64, kLongestAtom = 24, kLongestCount = 128;

/// e with its longest operations as symbols, or as one symbol.
Expr shortened(Graph& g, const Expr& e) {
  if (length(e) <= kLongestDim) return e;
  Expr sum = e.constant();
  for (const Term& t : e.terms()) {
    Expr product = t.coefficient;
    for (const Atom& a : t.atoms()) {
      const Expr x = a.expr();
      product *= length(x) > kLongestAtom ? g.derived_symbol("size", x) : x;
    }
    sum += product;
  }
  return length(sum) <= kLongestDim ? sum : g.derived_symbol("size", sum);
}

}  // namespace

Expr current(const Graph& g, const Expr& e) {
  if (e.is_const() || e.is_overflow()) return e;
  Expr now = e;
  for (const DimGuard& guard : g.guards) {
    if (guard.kind != GuardKind::Equal) continue;
    if (const auto rule = rule_of(g, guard.a, guard.b)) now = apply(*rule, now);
  }
  return now;
}

bool learn(Graph& g, const Expr& a, const Expr& b) {
  for (const auto& [lhs, rhs] : {std::pair(a, b), std::pair(b, a)}) {
    const auto id = lhs.as_symbol();
    const auto limit = id ? upper_limit(rhs, *id) : std::nullopt;
    if (!limit) continue;
    // Runs check the ranges of what they are told, not of what follows from it.
    if (g.symbol_sources[static_cast<size_t>(*id)].kind == SourceKind::Derived) continue;
    Symbol& symbol = g.symbols[static_cast<size_t>(*id)];
    symbol.max = std::min(symbol.max, *limit);
    const SymbolRanges ranges = ranges_of(g);
    rewrite_dims(g, [&](const Expr& e) { return e.simplify(ranges); });
    return true;
  }
  if (const auto rule = rule_of(g, a, b))
    rewrite_dims(g, [&](const Expr& e) { return apply(*rule, e); });
  return false;
}

namespace {

bool broadcasts(const DimGuard& guard) {
  return guard.kind == GuardKind::Broadcast || guard.kind == GuardKind::BroadcastTo;
}

/// What has become of a guard for dims that broadcast: two dims that are equal.
std::optional<DimGuard> settled(const Graph& g, const DimGuard& guard) {
  if (!broadcasts(guard)) return std::nullopt;
  const Expr a = current(g, guard.a);
  const Expr b = current(g, guard.b);
  DimGuard equal;
  equal.node = guard.node;
  if (guard.kind == GuardKind::BroadcastTo) {
    if (repeats(g, a, b)) return std::nullopt;
    equal.a = a;
    equal.b = b;
    equal.a_is = guard.a_is;
    equal.b_is = guard.b_is;
  } else {
    const auto plain = plain_broadcast(g, a, b);
    if (!plain) return std::nullopt;
    equal.a = current(g, guard.result);
    equal.b = *plain;
  }
  if (equal.a == equal.b || !rule_of(g, equal.a, equal.b)) return std::nullopt;
  return equal;
}

}  // namespace

void settle_broadcasts(Graph& g) {
  for (size_t i = 0; i < g.guards.size();) {
    auto equal = settled(g, g.guards[i++]);
    if (!equal) continue;
    learn(g, equal->a, equal->b);
    g.guards.push_back(*std::move(equal));
    i = 0;  // what other broadcasts give may follow
  }
}

bool same_size(const Graph& g, const Expr& a, const Expr& b) {
  if (a == b) return true;
  std::vector<Expr> reached{a};
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const DimGuard& guard : g.guards) {
      if (guard.kind != GuardKind::Equal) continue;
      const Expr x = current(g, guard.a);
      const Expr y = current(g, guard.b);
      for (const auto& [from, to] : {std::pair(x, y), std::pair(y, x)}) {
        if (from != reached[i]) continue;
        if (to == b) return true;
        if (std::find(reached.begin(), reached.end(), to) == reached.end()) reached.push_back(to);
      }
    }
  }
  return false;
}

bool broadcasts_to(const Graph& g, const Expr& from, const Expr& to) {
  std::vector<Expr> parts{to};
  const auto add = [&](const Expr& e) {
    if (std::find(parts.begin(), parts.end(), e) == parts.end()) parts.push_back(e);
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == from) return true;
    for (const DimGuard& guard : g.guards) {
      if (!broadcasts(guard) || current(g, guard.result) != parts[i]) continue;
      add(current(g, guard.a));
      add(current(g, guard.b));
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
  if (from == to || !one_beside(g, from, to, above_one) || same_size(g, from, to)) return at;
  return at * clamp(from - 1, 0, 1, g.symbols);
}

Expr InferContext::size(const Expr& e) const {
  if (e.is_const() || e.is_overflow()) return e;
  return shortened(g_, current(g_, e));
}

Shape InferContext::sizes(Shape shape) const {
  for (Expr& d : shape) d = size(d);
  for (;;) {
    const Expr count = element_count(shape);
    if (!count.is_overflow() && length(count) <= kLongestCount) return shape;
    const auto longest =
        std::max_element(shape.begin(), shape.end(), [](const Expr& a, const Expr& b) {
          return (a.is_overflow() ? 0 : length(a)) < (b.is_overflow() ? 0 : length(b));
        });
    if (longest == shape.end() || longest->is_const() || longest->is_overflow() ||
        longest->as_symbol())
      return shape;
    *longest = g_.derived_symbol("size", *longest);
  }
}

namespace {

/// Adds a guard unless there is one of the same kind for the same dims.
void add_new(Graph& g, DimGuard guard) {
  const auto same = [&](const DimGuard& other) {
    const bool symmetric = guard.kind == GuardKind::Equal || guard.kind == GuardKind::Broadcast;
    const bool swapped = symmetric && other.a == guard.b && other.b == guard.a;
    return other.kind == guard.kind && ((other.a == guard.a && other.b == guard.b) || swapped);
  };
  if (std::none_of(g.guards.begin(), g.guards.end(), same)) g.guards.push_back(std::move(guard));
}

}  // namespace

void InferContext::add_guard(GuardKind kind, const Expr& a, const Expr& b,
                             const Expr& result) const {
  graph::DimGuard guard;
  guard.kind = kind;
  guard.a = a;
  guard.b = b;
  guard.result = result;
  guard.node = n_.name;
  // The first input with the one dim, and the last with the other.
  for (size_t i = 0; i < input_count(); ++i) {
    if (!has_input(i)) continue;
    for (size_t d = 0; d < shape(i).size(); ++d) {
      const std::string text = "dimension " + std::to_string(d) + " of '" + input(i).name + "'";
      if (shape(i)[d] == a && guard.a_is.empty()) guard.a_is = text;
      if (shape(i)[d] == b) guard.b_is = text;
    }
  }
  add_new(g_, std::move(guard));
}

Result<Expr> InferContext::unify(const Expr& left, const Expr& right,
                                 const std::string& what) const {
  const Expr a = size(left);
  const Expr b = size(right);
  if (a == b) return a;
  if (!may_equal(a, b, g_.symbols)) {
    return invalid(what + " differ: " + a.str(g_.symbols) + " and " + b.str(g_.symbols));
  }
  const size_t before = g_.guards.size();
  add_guard(GuardKind::Equal, a, b, {});
  if (g_.guards.size() > before) {
    if (learn(g_, a, b)) g_.guards.pop_back();
    settle_broadcasts(g_);
  }
  return simpler(b, a) ? b : a;
}

void InferContext::at_least(const Expr& a, const std::string& a_is, const Expr& b,
                            const std::string& b_is) const {
  // A node in core form is made of one of the model, for which this was asked.
  if (n_.opset == 0) return;
  graph::DimGuard guard;
  guard.kind = GuardKind::AtLeast;
  guard.a = size(a);
  guard.b = size(b);
  if (bounds(guard.a - guard.b, g_.symbols).lo >= 0) return;
  guard.node = n_.name;
  guard.a_is = a_is;
  guard.b_is = b_is;
  add_new(g_, std::move(guard));
}

Result<Expr> InferContext::broadcast_dim(const Expr& left, const Expr& right) const {
  const Expr a = size(left);
  const Expr b = size(right);
  if (a == b || b.is_const(1)) return a;
  if (a.is_const(1)) return b;
  const bool a_repeats = repeats(g_, a, b);
  const bool b_repeats = repeats(g_, b, a);
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
  if (!repeats(g_, a, b)) return unify(a, b, what).status();
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
