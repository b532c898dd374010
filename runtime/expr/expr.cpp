// Normal form and ring operations of Expr. Division is in expr_divide.cpp.
#include "runtime/expr/expr.h"

#include "runtime/expr/expr_rep.h"

namespace reprise {
namespace {

uint64_t atom_hash(const Atom& a) {
  const auto* operands = ExprAccess::operands(a);
  if (operands) return operands->hash;
  return mix(static_cast<uint64_t>(a.kind()), static_cast<uint64_t>(a.symbol()));
}

uint32_t saturating_add(uint32_t a, uint32_t b) {
  const uint32_t sum = a + b;
  return sum < a ? std::numeric_limits<uint32_t>::max() : sum;
}

/// Adds two sorted lists of terms. False on overflow.
bool merge(std::span<const Term> a, std::span<const Term> b, SmallVector<Term>& out) {
  out.reserve(a.size() + b.size());
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    const int order = ExprAccess::compare(*a[i].product, *b[j].product);
    if (order < 0) {
      out.push_back(a[i++]);
    } else if (order > 0) {
      out.push_back(b[j++]);
    } else {
      int64_t c = 0;
      if (__builtin_add_overflow(a[i].coefficient, b[j].coefficient, &c)) return false;
      if (c != 0) out.push_back({c, a[i].product});
      ++i;
      ++j;
    }
  }
  out.insert(out.end(), a.begin() + static_cast<std::ptrdiff_t>(i), a.end());
  out.insert(out.end(), b.begin() + static_cast<std::ptrdiff_t>(j), b.end());
  return true;
}

/// Whether every term of factor * `part` is a term of `whole` with the same coefficient.
bool contains(const Expr& whole, const Expr& part, int64_t factor = 1) {
  size_t i = 0;
  const auto terms = whole.terms();
  for (const Term& t : part.terms()) {
    int64_t coefficient = 0;
    if (__builtin_mul_overflow(t.coefficient, factor, &coefficient)) return false;
    while (i < terms.size() && ExprAccess::compare(*terms[i].product, *t.product) < 0) ++i;
    if (i == terms.size() || terms[i].coefficient != coefficient ||
        ExprAccess::compare(*terms[i].product, *t.product) != 0) {
      return false;
    }
  }
  return true;
}

/// Two expressions with a + b = sum, where sum is simpler.
struct Complement {
  Expr other, sum;
};

/// mod(x, m) + m*floordiv(x, m) = x.
/// floordiv(mod(x, m), c) + m/c*floordiv(x, m) = floordiv(x, c) if c divides m. For a constant m,
/// division has already moved the modulus outside.
std::optional<Complement> complement_of(const Expr& /*e*/, const Term& /*t*/, const Atom& a) {
  const bool is_mod = a.kind() == Atom::Kind::Mod;
  if (!is_mod && a.kind() != Atom::Kind::FloorDiv) return std::nullopt;
  const Atom* mod = &a;
  if (!is_mod) {
    const auto terms = a.lhs().terms();
    if (terms.size() != 1 || terms[0].coefficient != 1 || a.lhs().constant() != 0) {
      return std::nullopt;
    }
    mod = terms[0].single();
    if (!mod || mod->kind() != Atom::Kind::Mod) return std::nullopt;
  }
  const auto factor = is_mod ? mod->rhs() : Expr::divide_exact(mod->rhs(), a.rhs());
  if (!factor) return std::nullopt;
  const Expr quotient = Expr::floordiv(mod->lhs(), mod->rhs());
  // Anything but a plain quotient would split into parts that no sum contains.
  if (quotient.is_const() || quotient.constant() != 0) return std::nullopt;
  return Complement{*factor * quotient, is_mod ? mod->lhs() : Expr::floordiv(mod->lhs(), a.rhs())};
}

/// The term without one of its atoms.
Expr cofactor(const Term& t, const Atom& without) {
  SmallVector<Atom> rest;
  for (const Atom& a : t.atoms()) {
    if (&a != &without) rest.push_back(a);
  }
  if (rest.empty()) return t.coefficient;
  return ExprAccess::single({t.coefficient, ExprAccess::product(std::move(rest))});
}

/// mod(x, m) - x = -m*floordiv(x, m), so that a value that is rounded up to a multiple is
/// recognised as a multiple.
std::optional<Complement> negated_dividend(const Expr& e, const Term& t, const Atom& a) {
  if (a.kind() != Atom::Kind::Mod || a.lhs().constant() != 0) return std::nullopt;
  // Most sums do not contain the dividend, which is seen before the quotient is computed.
  if (t.single() != nullptr && t.coefficient != std::numeric_limits<int64_t>::min() &&
      !contains(e, a.lhs(), -t.coefficient))
    return std::nullopt;
  const Expr quotient = Expr::floordiv(a.lhs(), a.rhs());
  const auto* rep = ExprAccess::rep(quotient);
  if (!rep || rep->has_remainder) return std::nullopt;
  return Complement{a.lhs() * Expr(-1), a.rhs() * quotient * Expr(-1)};
}

/// Joins one remainder in e with the quotient or the dividend of the same division, if both are
/// among its terms.
std::optional<Expr> join_one(const Expr& e,
                             std::optional<Complement> (*partner)(const Expr& e, const Term& t,
                                                                  const Atom& a)) {
  for (const Term& t : e.terms()) {
    for (const Atom& a : t.atoms()) {
      const auto pair = partner(e, t, a);
      if (!pair) continue;
      const Expr factor = cofactor(t, a);
      const Expr other = factor * pair->other;
      if (other.is_overflow() || !contains(e, other)) continue;
      return e - other - ExprAccess::single(t) + factor * pair->sum;
    }
  }
  return std::nullopt;
}

Expr recombine(Expr e) {
  for (;;) {
    const auto* rep = ExprAccess::rep(e);
    if (!rep || !rep->has_remainder) return e;
    // Each step replaces two operations by one or none, or a remainder by a quotient, so this ends.
    auto joined = rep->has_quotient ? join_one(e, complement_of) : std::nullopt;
    if (!joined && rep->terms.size() > 1) joined = join_one(e, negated_dividend);
    if (!joined) return e;
    e = *std::move(joined);
  }
}

}  // namespace

const Expr& Atom::lhs() const {
  return operands_->lhs;
}

const Expr& Atom::rhs() const {
  return operands_->rhs;
}

Expr Atom::expr() const {
  if (kind_ == Kind::Overflow) return Expr::overflow();
  return ExprAccess::single({1, ExprAccess::product({*this})});
}

std::span<const Atom> Term::atoms() const {
  return product->atoms;
}

const Atom* Term::single() const {
  return product->atoms.size() == 1 ? product->atoms.data() : nullptr;
}

Atom ExprAccess::symbol_atom(SymbolId id) {
  Atom a;
  a.symbol_ = id;
  return a;
}

Atom ExprAccess::atom(Atom::Kind kind, Expr lhs, Expr rhs) {
  Atom a;
  a.kind_ = kind;
  const uint64_t hash = mix(mix(static_cast<uint64_t>(kind), lhs.hash()), rhs.hash());
  a.operands_ = std::allocate_shared<Atom::Operands>(
      SmallAllocator<Atom::Operands>(), Atom::Operands{std::move(lhs), std::move(rhs), hash});
  return a;
}

std::shared_ptr<const Term::Product> ExprAccess::product(SmallVector<Atom> sorted_atoms) {
  auto p = std::allocate_shared<Term::Product>(SmallAllocator<Term::Product>());
  p->hash = sorted_atoms.size();
  for (const Atom& a : sorted_atoms) {
    p->hash = mix(p->hash, atom_hash(a));
    p->size = saturating_add(p->size, 1);
    p->overflow |= a.kind_ == Atom::Kind::Overflow;
    const auto* operands = a.operands_.get();
    if (!operands) {
      p->largest_symbol = std::max(p->largest_symbol, a.symbol_);
      continue;
    }
    const bool division = a.kind_ == Atom::Kind::FloorDiv;
    p->has_quotient |= division;
    p->has_remainder |= a.kind_ == Atom::Kind::Mod ||
                        (division && operands->lhs.rep_ && operands->lhs.rep_->has_remainder);
    for (const Expr* e : {&operands->lhs, &operands->rhs}) {
      if (!e->rep_) continue;
      p->largest_symbol = std::max(p->largest_symbol, e->rep_->largest_symbol);
      p->size = saturating_add(p->size, e->rep_->size);
      p->depth = std::max(p->depth, e->rep_->depth);
    }
    p->depth = std::max(p->depth, 1u);
    ++p->depth;
  }
  p->atoms = std::move(sorted_atoms);
  return p;
}

Expr ExprAccess::single(const Term& t) {
  return make({t}, 0);
}

Expr ExprAccess::with_constant(const Expr& e, int64_t constant) {
  Expr r = e;
  r.constant_ = constant;
  return r;
}

Expr ExprAccess::make(SmallVector<Term> terms, int64_t constant) {
  if (terms.empty()) return constant;
  auto rep = std::allocate_shared<Expr::Rep>(SmallAllocator<Expr::Rep>());
  for (const Term& t : terms) {
    rep->hash = mix(mix(rep->hash, static_cast<uint64_t>(t.coefficient)), t.product->hash);
    rep->size = saturating_add(rep->size, t.product->size);
    rep->depth = std::max(rep->depth, t.product->depth);
    rep->largest_symbol = std::max(rep->largest_symbol, t.product->largest_symbol);
    rep->has_quotient |= t.product->has_quotient;
    rep->has_remainder |= t.product->has_remainder;
    rep->overflow |= t.product->overflow;
  }
  if (!rep->overflow && (rep->size > kMaxSize || rep->depth > kMaxDepth)) return Expr::overflow();
  rep->terms = std::move(terms);
  Expr e;
  e.constant_ = constant;
  e.rep_ = std::move(rep);
  return e;
}

int ExprAccess::compare(const Expr& a, const Expr& b) {
  const Expr::Rep* x = a.rep_.get();
  const Expr::Rep* y = b.rep_.get();
  if (x != y) {
    if (!x || !y) return x ? 1 : -1;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    if (x->terms.size() != y->terms.size()) return x->terms.size() < y->terms.size() ? -1 : 1;
    for (size_t i = 0; i < x->terms.size(); ++i) {
      const Term& s = x->terms[i];
      const Term& t = y->terms[i];
      if (s.coefficient != t.coefficient) return s.coefficient < t.coefficient ? -1 : 1;
      if (const int c = compare(*s.product, *t.product)) return c;
    }
  }
  return a.constant_ == b.constant_ ? 0 : (a.constant_ < b.constant_ ? -1 : 1);
}

int ExprAccess::compare(const Atom& a, const Atom& b) {
  if (a.kind_ != b.kind_) return a.kind_ < b.kind_ ? -1 : 1;
  if (a.symbol_ != b.symbol_) return a.symbol_ < b.symbol_ ? -1 : 1;
  if (a.operands_ == b.operands_) return 0;
  if (a.operands_->hash != b.operands_->hash) {
    return a.operands_->hash < b.operands_->hash ? -1 : 1;
  }
  if (const int c = compare(a.operands_->lhs, b.operands_->lhs)) return c;
  return compare(a.operands_->rhs, b.operands_->rhs);
}

int ExprAccess::compare(const Term::Product& a, const Term::Product& b) {
  if (&a == &b) return 0;
  if (a.atoms.size() != b.atoms.size()) return a.atoms.size() > b.atoms.size() ? -1 : 1;
  for (size_t i = 0; i < a.atoms.size(); ++i) {
    if (const int c = compare(a.atoms[i], b.atoms[i])) return c;
  }
  return 0;
}

Expr Expr::symbol(SymbolId id) {
  return ExprAccess::symbol_atom(id).expr();
}

Expr Expr::overflow() {
  static const Expr kOverflow = ExprAccess::make(
      {{1, ExprAccess::product({ExprAccess::atom(Atom::Kind::Overflow, 0, 0)})}}, 0);
  return kOverflow;
}

SymbolId Expr::largest_symbol() const {
  return rep_ ? rep_->largest_symbol : -1;
}

bool Expr::is_overflow() const {
  return rep_ && rep_->overflow;
}

std::optional<SymbolId> Expr::as_symbol() const {
  if (!rep_ || constant_ != 0 || rep_->terms.size() != 1) return std::nullopt;
  const Term& t = rep_->terms[0];
  const Atom* a = t.single();
  if (!a || t.coefficient != 1 || a->kind() != Atom::Kind::Symbol) return std::nullopt;
  return a->symbol();
}

std::span<const Term> Expr::terms() const {
  return rep_ ? std::span<const Term>(rep_->terms) : std::span<const Term>();
}

size_t Expr::hash() const {
  return static_cast<size_t>(mix(rep_ ? rep_->hash : 0, static_cast<uint64_t>(constant_)));
}

bool operator==(const Expr& a, const Expr& b) {
  return ExprAccess::compare(a, b) == 0;
}

Expr operator+(const Expr& a, const Expr& b) {
  if (a.is_overflow() || b.is_overflow()) return Expr::overflow();
  int64_t constant = 0;
  if (__builtin_add_overflow(a.constant_, b.constant_, &constant)) return Expr::overflow();
  if (!b.rep_) return ExprAccess::with_constant(a, constant);
  if (!a.rep_) return ExprAccess::with_constant(b, constant);
  SmallVector<Term> terms;
  if (!merge(a.rep_->terms, b.rep_->terms, terms)) return Expr::overflow();
  return recombine(ExprAccess::make(std::move(terms), constant));
}

Expr operator-(const Expr& a, const Expr& b) {
  if (!b.rep_) {
    int64_t constant = 0;
    if (a.is_overflow() || __builtin_sub_overflow(a.constant_, b.constant_, &constant)) {
      return Expr::overflow();
    }
    return ExprAccess::with_constant(a, constant);
  }
  return a + b * Expr(-1);
}

namespace {

/// e * factor, for a factor other than 0.
Expr scale(const Expr& e, int64_t factor) {
  int64_t constant = 0;
  if (__builtin_mul_overflow(e.constant(), factor, &constant)) return Expr::overflow();
  SmallVector<Term> terms(e.terms().begin(), e.terms().end());
  for (Term& t : terms) {
    if (__builtin_mul_overflow(t.coefficient, factor, &t.coefficient)) return Expr::overflow();
  }
  return ExprAccess::make(std::move(terms), constant);
}

std::shared_ptr<const Term::Product> multiply(const Term::Product& a, const Term::Product& b) {
  SmallVector<Atom> atoms(a.atoms.size() + b.atoms.size());
  std::merge(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(), atoms.begin(),
             [](const Atom& x, const Atom& y) { return ExprAccess::compare(x, y) < 0; });
  return ExprAccess::product(std::move(atoms));
}

}  // namespace

Expr operator*(const Expr& a, const Expr& b) {
  if (a.is_overflow() || b.is_overflow()) return Expr::overflow();
  if (!a.rep_ && !b.rep_) {
    int64_t constant = 0;
    if (__builtin_mul_overflow(a.constant_, b.constant_, &constant)) return Expr::overflow();
    return constant;
  }
  if (!a.rep_) return b * a;
  if (!b.rep_) {
    if (b.constant_ == 0) return 0;
    return b.constant_ == 1 ? a : scale(a, b.constant_);
  }
  if (a.rep_->terms.size() * b.rep_->terms.size() > ExprAccess::kMaxSize) return Expr::overflow();
  Expr sum = a.constant_ == 0 ? Expr(0) : scale(b, a.constant_);
  if (b.constant_ != 0) {
    sum += scale(ExprAccess::with_constant(a, 0), b.constant_);
  }
  for (const Term& s : a.rep_->terms) {
    // A monomial order: multiplying by one term keeps the other side sorted.
    SmallVector<Term> row;
    row.reserve(b.rep_->terms.size());
    for (const Term& t : b.rep_->terms) {
      int64_t c = 0;
      if (__builtin_mul_overflow(s.coefficient, t.coefficient, &c)) return Expr::overflow();
      row.push_back({c, multiply(*s.product, *t.product)});
    }
    sum += ExprAccess::make(std::move(row), 0);
  }
  return sum;
}

Expr element_count(const Shape& s) {
  // For an empty tensor, partial products may overflow.
  if (std::any_of(s.begin(), s.end(), [](const Expr& d) { return d.is_const(0); })) return 0;
  Expr n = 1;
  for (const Expr& d : s) n *= d;
  return n;
}

bool is_static(const Shape& s) {
  return std::all_of(s.begin(), s.end(), [](const Expr& d) { return d.is_const(); });
}

std::vector<int64_t> static_dims(const Shape& s) {
  std::vector<int64_t> dims;
  dims.reserve(s.size());
  for (const Expr& d : s) dims.push_back(d.value());
  return dims;
}

std::string shape_str(const Shape& s, std::span<const Symbol> table) {
  std::string text = "[";
  for (size_t i = 0; i < s.size(); ++i) {
    if (i) text += ", ";
    text += s[i].str(table);
  }
  return text + "]";
}

}  // namespace reprise
