#include "codegen/ops/row/dims.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "codegen/graph/symbol_ranges.h"
#include "codegen/ops/row/op.h"
#include "codegen/ops/row/shape_arith.h"

namespace reprise::ops {

namespace {

using graph::DimGuard;
using graph::Graph;
using GuardKind = DimGuard::Kind;
using SourceKind = SymbolSource::Kind;

bool contains(const Expr& e, SymbolId id) {
  const auto symbols = e.symbols();
  return std::find(symbols.begin(), symbols.end(), id) != symbols.end();
}

/// Returns c if e is min(symbol, c).
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
  for (const graph::ValueId id : g.values().ids()) {
    graph::Value& v = g.value(id);
    each(v.shape);
    each(v.items.shape);
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

/// The point of a run at which e is known: -1 if it follows from the dims of inputs, else the
/// latest symbol that a host call determines.
SymbolId known_after(const Graph& g, const Expr& e) {
  SymbolId latest = -1;
  for (const SymbolId s : e.symbols()) {
    const SymbolSource& source = g.symbol_sources[static_cast<size_t>(s)];
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

/// Replaces a symbol or an operation by an equal expression, which must be known no later in a run.
/// A guard for equal dims gives at most one rule.
using Rule = graph::EqualDims::Rule;

/// Replaces a symbol. A dim of an input is only replaced by an expression of such dims. Of two
/// symbols, the later one is replaced, which may be a fresh one.
std::optional<Rule> symbol_rule(const Graph& g, const Expr& lhs, const Expr& rhs) {
  const auto id = lhs.as_symbol();
  const auto other = rhs.as_symbol();
  if (!id || contains(rhs, *id) || (other && *other > *id)) return std::nullopt;
  const auto symbols = rhs.symbols();
  const bool inputs_only =
      std::all_of(symbols.begin(), symbols.end(), [&g](SymbolId s) { return of_inputs(g, s); });
  if (of_inputs(g, *id) && !inputs_only) return std::nullopt;
  if (known_after(g, rhs) > known_after(g, lhs)) return std::nullopt;
  return Rule{lhs, rhs};
}

/// The operation of an expression that consists of one, else null.
const Atom* as_operation(const Expr& e) {
  if (e.terms().size() != 1 || e.constant() != 0 || e.terms()[0].coefficient != 1) return nullptr;
  const Atom* a = e.terms()[0].single();
  if (a == nullptr || a->kind() == Atom::Kind::Symbol || a->kind() == Atom::Kind::Overflow)
    return nullptr;
  return a;
}

bool is_operation(const Atom& a, const Atom& operation) {
  return a.kind() == operation.kind() && a.lhs() == operation.lhs() && a.rhs() == operation.rhs();
}

bool has_operation(const Expr& e, const Atom& operation) {
  return std::ranges::any_of(e.terms(), [&](const Term& t) {
    return std::ranges::any_of(t.atoms(),
                               [&](const Atom& a) { return is_operation(a, operation); });
  });
}

/// Replaces the operation in e by `to`, except where it is an operand of another operation.
Expr with_operation(const Expr& e, const Atom& operation, const Expr& to) {
  if (!has_operation(e, operation)) return e;
  Expr sum = e.constant();
  for (const Term& t : e.terms()) {
    Expr product = t.coefficient;
    for (const Atom& a : t.atoms()) product *= is_operation(a, operation) ? to : a.expr();
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
  const Atom* operation = as_operation(lhs);
  if (operation == nullptr || known_after(g, rhs) > known_after(g, lhs)) return std::nullopt;
  if (has_operation(rhs, *operation)) return std::nullopt;
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
  if (!id) return with_operation(e, *as_operation(rule.from), rule.to);
  if (!contains(e, *id)) return e;
  return e.substitute(
      [&](SymbolId s) { return s == *id ? std::optional<Expr>(rule.to) : std::nullopt; });
}

// Lengths of Expr::encode(). Models stay far below: after a convolution with strides, a dim has a
// length of 10.
constexpr size_t kLongestDim = 64, kLongestAtom = 24, kLongestCount = 128;

/// Replaces the longest operations of e by symbols or, if it is still too long, all of e.
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

bool has_rewrite_rule(const Graph& g, const Expr& a, const Expr& b) {
  return rule_of(g, a, b).has_value();
}

namespace {

graph::EqualDims equal_dims_of(const Graph& g) {
  graph::EqualDims out;
  for (const DimGuard& guard : g.guards) {
    if (guard.kind != GuardKind::Equal) continue;
    if (auto rule = rule_of(g, guard.a, guard.b)) out.rules.push_back(*std::move(rule));
    out.equals.emplace_back(guard.a, guard.b);
  }
  for (auto& [a, b] : out.equals) {
    for (const Rule& rule : out.rules) {
      a = apply(rule, a);
      b = apply(rule, b);
    }
  }
  return out;
}

std::shared_ptr<const graph::EqualDims> equal_dims(const Graph& g) {
  return g.equal_dims ? g.equal_dims : std::make_shared<graph::EqualDims>(equal_dims_of(g));
}

}  // namespace

void resolve_guards(Graph& g) {
  g.equal_dims = std::make_shared<graph::EqualDims>(equal_dims_of(g));
}

void fix_symbol(Graph& g, SymbolId symbol, int64_t value) {
  std::vector<std::optional<Expr>> values(g.symbols.size());
  values[static_cast<size_t>(symbol)] = value;
  const auto fixed = [&](const Expr& e) {
    return e.substitute([&](SymbolId s) { return values[static_cast<size_t>(s)]; });
  };
  for (size_t s = 0; s < values.size(); ++s) {
    SymbolSource& source = g.symbol_sources[s];
    if (source.kind != SourceKind::Derived) continue;
    source.value = fixed(source.value);
    if (source.value.is_const()) values[s] = source.value;
  }
  rewrite_dims(g, fixed);
  for (DimGuard& guard : g.guards)
    for (Expr* e : {&guard.a, &guard.b, &guard.result}) *e = fixed(*e);
  for (size_t s = 0; s < values.size(); ++s)
    if (values[s]) g.symbols[s].min = g.symbols[s].max = values[s]->value();
  resolve_guards(g);
}

Expr canonical(const Graph& g, const Expr& e) {
  if (e.is_const() || e.is_overflow() || g.guards.empty()) return e;
  const auto known = equal_dims(g);
  Expr now = e;
  for (const Rule& rule : known->rules) now = apply(rule, now);
  return now;
}

bool propagate_equality(Graph& g, const Expr& a, const Expr& b) {
  for (const auto& [lhs, rhs] : {std::pair(a, b), std::pair(b, a)}) {
    const auto id = lhs.as_symbol();
    const auto limit = id ? upper_limit(rhs, *id) : std::nullopt;
    if (!limit) continue;
    // A run checks the ranges of symbols that it reads, but not those of derived symbols.
    if (g.symbol_sources[static_cast<size_t>(*id)].kind == SourceKind::Derived) continue;
    Symbol& symbol = g.symbols[static_cast<size_t>(*id)];
    symbol.max = std::min(symbol.max, *limit);
    Simplifier simplifier(graph::symbol_ranges(g));
    rewrite_dims(g, [&](const Expr& e) { return simplifier.simplify(e); });
    return true;
  }
  if (const auto rule = rule_of(g, a, b))
    rewrite_dims(g, [&](const Expr& e) { return apply(*rule, e); });
  return false;
}

bool same_size(const Graph& g, const Expr& a, const Expr& b) {
  if (a == b) return true;
  if (g.guards.empty()) return false;
  const auto known = equal_dims(g);
  std::vector<Expr> reached{a};
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const auto& [x, y] : known->equals) {
      for (const auto& [from, to] : {std::pair(x, y), std::pair(y, x)}) {
        if (from != reached[i]) continue;
        if (to == b) return true;
        if (std::find(reached.begin(), reached.end(), to) == reached.end()) reached.push_back(to);
      }
    }
  }
  return false;
}

Expr InferContext::size(const Expr& e) const {
  if (e.is_const() || e.is_overflow()) return e;
  return shortened(g_, canonical(g_, e));
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
  if (std::any_of(g.guards.begin(), g.guards.end(), same)) return;
  g.guards.push_back(std::move(guard));
  g.equal_dims.reset();
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
  // Name the first input that has dim a and the last one that has dim b.
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
    if (propagate_equality(g_, a, b)) g_.guards.pop_back();
    simplify_broadcasts(g_);
  }
  return simpler(b, a) ? b : a;
}

void InferContext::at_least(const Expr& a, const std::string& a_is, const Expr& b,
                            const std::string& b_is) const {
  // A node in core form comes from a node of the model, for which this was checked.
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

}  // namespace reprise::ops
