// Evaluation, substitution and the stored form of Expr.
#include <unordered_map>

#include "runtime/expr/expr_rep.h"

namespace reprise {
namespace {

Status overflow_error() {
  return invalid_input("a size expression overflows 64 bits or is too large");
}

Result<int64_t> eval_operation(Atom::Kind kind, int64_t a, int64_t b) {
  switch (kind) {
    case Atom::Kind::FloorDiv:
    case Atom::Kind::Mod:
      if (b == 0) return invalid_input("a size expression divides by zero");
      if (kind == Atom::Kind::Mod) return floor_mod(a, b);
      if (b == -1 && a == std::numeric_limits<int64_t>::min()) return overflow_error();
      return floor_div(a, b);
    case Atom::Kind::Min:
      return std::min(a, b);
    case Atom::Kind::Max:
      return std::max(a, b);
    case Atom::Kind::Symbol:
    case Atom::Kind::Overflow:
      break;
  }
  return overflow_error();
}

Result<int64_t> eval_atom(const Atom& a, std::span<const int64_t> symbols) {
  if (a.kind() == Atom::Kind::Overflow) return overflow_error();
  if (a.kind() != Atom::Kind::Symbol) {
    RP_ASSIGN(const int64_t lhs, a.lhs().eval(symbols));
    RP_ASSIGN(const int64_t rhs, a.rhs().eval(symbols));
    return eval_operation(a.kind(), lhs, rhs);
  }
  const auto i = static_cast<size_t>(a.symbol());
  if (a.symbol() < 0 || i >= symbols.size() || symbols[i] == std::numeric_limits<int64_t>::min()) {
    return invalid_input("symbol " + std::to_string(a.symbol()) + " has no value");
  }
  return symbols[i];
}

using AtomMap = std::function<std::optional<Expr>(const Atom&)>;

/// Rebuilds the expression with replaced atoms. Returns nothing if none was replaced.
std::optional<Expr> map_atoms(const Expr& e, const AtomMap& f) {
  SmallVector<Term> kept;
  Expr changed = 0;
  bool any = false;
  std::vector<std::optional<Expr>> replaced;
  for (const Term& t : e.terms()) {
    replaced.clear();
    bool here = false;
    for (const Atom& a : t.atoms()) here |= replaced.emplace_back(f(a)).has_value();
    if (!here) {
      kept.push_back(t);
      continue;
    }
    any = true;
    Expr product = t.coefficient;
    for (size_t i = 0; i < replaced.size(); ++i) {
      product *= replaced[i] ? *replaced[i] : t.atoms()[i].expr();
    }
    changed += product;
  }
  if (!any) return std::nullopt;
  return ExprAccess::make(std::move(kept), e.constant()) + changed;
}

std::optional<Expr> substitute_in(const Expr& e,
                                  const std::function<std::optional<Expr>(SymbolId)>& f) {
  return map_atoms(e, [&f](const Atom& a) -> std::optional<Expr> {
    if (a.kind() == Atom::Kind::Symbol) return f(a.symbol());
    if (a.kind() == Atom::Kind::Overflow) return std::nullopt;
    const auto lhs = substitute_in(a.lhs(), f);
    const auto rhs = substitute_in(a.rhs(), f);
    if (!lhs && !rhs) return std::nullopt;
    const Expr& l = lhs ? *lhs : a.lhs();
    const Expr& r = rhs ? *rhs : a.rhs();
    if (a.kind() == Atom::Kind::FloorDiv) return Expr::floordiv(l, r);
    if (a.kind() == Atom::Kind::Mod) return Expr::mod(l, r);
    return a.kind() == Atom::Kind::Min ? Expr::min(l, r) : Expr::max(l, r);
  });
}

// The opcodes of encode(), which must never be renumbered. Const and Sym are followed by one
// operand. The others take two values from the stack, except Overflow, which takes none.
enum Op : int64_t { Const = 0, Sym, Add, Mul, FloorDiv, Mod, Min, Max, Overflow };
constexpr size_t kMaxCode = 16 * ExprAccess::kMaxSize;
constexpr size_t kMaxStack = 4 * ExprAccess::kMaxDepth;

void encode_atom(const Atom& a, std::vector<int64_t>& out) {
  switch (a.kind()) {
    case Atom::Kind::Symbol:
      out.insert(out.end(), {Op::Sym, a.symbol()});
      return;
    case Atom::Kind::Overflow:
      out.push_back(Op::Overflow);
      return;
    case Atom::Kind::FloorDiv:
    case Atom::Kind::Mod:
    case Atom::Kind::Min:
    case Atom::Kind::Max:
      break;
  }
  a.lhs().encode(out);
  a.rhs().encode(out);
  const int64_t offset =
      static_cast<int64_t>(a.kind()) - static_cast<int64_t>(Atom::Kind::FloorDiv);
  out.push_back(Op::FloorDiv + offset);
}

Expr apply(int64_t op, const Expr& a, const Expr& b) {
  switch (op) {
    case Op::Add:
      return a + b;
    case Op::Mul:
      return a * b;
    case Op::FloorDiv:
      return Expr::floordiv(a, b);
    case Op::Mod:
      return Expr::mod(a, b);
    case Op::Min:
      return Expr::min(a, b);
    default:
      return Expr::max(a, b);
  }
}

}  // namespace

Result<int64_t> Expr::eval(std::span<const int64_t> symbols) const {
  int64_t sum = constant_;
  for (const Term& t : terms()) {
    int64_t value = t.coefficient;
    for (const Atom& a : t.atoms()) {
      RP_ASSIGN(const int64_t factor, eval_atom(a, symbols));
      if (__builtin_mul_overflow(value, factor, &value)) return overflow_error();
    }
    if (__builtin_add_overflow(sum, value, &sum)) return overflow_error();
  }
  return sum;
}

Expr Expr::substitute(const std::function<std::optional<Expr>(SymbolId)>& f) const {
  return substitute_in(*this, f).value_or(*this);
}

Expr Expr::simplify(const SymbolRanges& ranges) const {
  return is_const() ? *this : Simplifier(ranges).simplify(*this);
}

struct Simplifier::Results {
  struct Hash {
    size_t operator()(const Atom& a) const { return ExprAccess::operands(a)->hash; }
  };
  struct Equal {
    bool operator()(const Atom& a, const Atom& b) const { return ExprAccess::compare(a, b) == 0; }
  };
  /// Nothing if an operation is already in its simplest form.
  std::unordered_map<Atom, std::optional<Expr>, Hash, Equal> of;
};

Simplifier::Simplifier(SymbolRanges ranges)
    : ranges_(std::move(ranges)), results_(std::make_unique<Results>()) {}

Simplifier::~Simplifier() = default;

void Simplifier::ranges_changed() {
  results_->of.clear();
}

Expr Simplifier::simplify(const Expr& e) {
  if (e.is_const()) return e;
  return map_atoms(e, [this](const Atom& a) { return atom(a); }).value_or(e);
}

std::optional<Expr> Simplifier::atom(const Atom& a) {
  if (a.kind() == Atom::Kind::Overflow) return std::nullopt;
  if (a.kind() == Atom::Kind::Symbol) {
    const SymbolRange r = ranges_(a.symbol());
    return r.min == r.max ? std::optional<Expr>(r.min) : std::nullopt;
  }
  if (const auto known = results_->of.find(a); known != results_->of.end()) return known->second;
  return results_->of.emplace(a, operation(a)).first->second;
}

std::optional<Expr> Simplifier::operation(const Atom& a) {
  const Expr l = simplify(a.lhs());
  const Expr r = simplify(a.rhs());
  Expr result = a.kind() == Atom::Kind::FloorDiv ? floordiv_in(l, r, &ranges_)
                : a.kind() == Atom::Kind::Mod    ? mod_in(l, r, &ranges_)
                                                 : min_max_in(a.kind(), l, r, &ranges_);
  const auto same = result.terms();
  if (same.size() == 1 && same[0].coefficient == 1 && result.constant() == 0 && same[0].single() &&
      ExprAccess::compare(*same[0].single(), a) == 0) {
    return std::nullopt;
  }
  return result;
}

Interval Expr::bounds(const SymbolRanges& ranges) const {
  return bounds_in(*this, &ranges);
}

std::vector<SymbolId> Expr::symbols() const {
  std::vector<SymbolId> out;
  collect_symbols(out);
  return out;
}

void Expr::collect_symbols(std::vector<SymbolId>& out) const {
  for (const Term& t : terms()) {
    for (const Atom& a : t.atoms()) {
      if (a.kind() == Atom::Kind::Symbol) {
        out.push_back(a.symbol());
      } else if (a.kind() != Atom::Kind::Overflow) {
        a.lhs().collect_symbols(out);
        a.rhs().collect_symbols(out);
      }
    }
  }
}

int64_t Expr::known_divisor() const {
  return known_divisor({});
}

int64_t Expr::known_divisor(std::span<const Symbol> table) const {
  const auto of_atom = [table](const Atom& a) -> int64_t {
    if (a.kind() == Atom::Kind::Symbol) {
      const auto i = static_cast<size_t>(a.symbol());
      return a.symbol() >= 0 && i < table.size() ? std::max<int64_t>(table[i].divisor, 1) : 1;
    }
    if (a.kind() == Atom::Kind::FloorDiv || a.kind() == Atom::Kind::Overflow) return 1;
    return gcd_of(a.lhs().known_divisor(table), a.rhs().known_divisor(table));
  };
  int64_t divisor = gcd_of(constant_, 0);
  for (const Term& t : terms()) {
    int64_t here = gcd_of(t.coefficient, 0);
    for (const Atom& a : t.atoms()) {
      const int64_t d = of_atom(a);
      int64_t product = 0;
      // A known divisor of 0 means that the atom, and thus the term, is always 0.
      if (d == 0 || !__builtin_mul_overflow(here, d, &product)) here = product;
    }
    divisor = gcd_of(divisor, here);
  }
  return divisor;
}

void Expr::encode(std::vector<int64_t>& out) const {
  if (!rep_) {
    out.insert(out.end(), {Op::Const, constant_});
    return;
  }
  bool first = true;
  for (const Term& t : rep_->terms) {
    bool factor = false;
    if (t.coefficient != 1) {
      out.insert(out.end(), {Op::Const, t.coefficient});
      factor = true;
    }
    for (const Atom& a : t.product->atoms) {
      encode_atom(a, out);
      if (std::exchange(factor, true)) out.push_back(Op::Mul);
    }
    if (!std::exchange(first, false)) out.push_back(Op::Add);
  }
  if (constant_ != 0) out.insert(out.end(), {Op::Const, constant_, Op::Add});
}

Result<Expr> Expr::decode(std::span<const int64_t> code) {
  if (code.size() > kMaxCode) return invalid_model("expression code is too long");
  std::vector<Expr> stack;
  for (size_t i = 0; i < code.size(); ++i) {
    const int64_t op = code[i];
    if (op < Op::Const || op > Op::Overflow) {
      return invalid_model("unknown opcode " + std::to_string(op) + " in an expression");
    }
    if (op == Op::Const || op == Op::Sym) {
      if (++i == code.size()) return invalid_model("expression code ends early");
      if (op == Op::Sym && (code[i] < 0 || code[i] > std::numeric_limits<SymbolId>::max())) {
        return invalid_model("symbol id " + std::to_string(code[i]) + " in an expression");
      }
      stack.push_back(op == Op::Const ? Expr(code[i]) : symbol(static_cast<SymbolId>(code[i])));
    } else if (op == Op::Overflow) {
      stack.push_back(overflow());
    } else {
      if (stack.size() < 2) return invalid_model("expression code lacks operands");
      const Expr b = std::move(stack.back());
      stack.pop_back();
      stack.back() = apply(op, stack.back(), b);
    }
    if (stack.size() > kMaxStack) return invalid_model("expression is nested too deeply");
  }
  if (stack.size() != 1) return invalid_model("expression code leaves no single value");
  return stack[0];
}

}  // namespace reprise
