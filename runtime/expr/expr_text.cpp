// Printing and parsing of Expr.
#include "runtime/expr/expr_rep.h"

namespace reprise {
namespace {

constexpr std::string_view kOverflowName = "overflow";

std::string_view function_name(Atom::Kind kind) {
  switch (kind) {
    case Atom::Kind::FloorDiv:
      return "floordiv";
    case Atom::Kind::Mod:
      return "mod";
    case Atom::Kind::Min:
      return "min";
    case Atom::Kind::Max:
      return "max";
    case Atom::Kind::Overflow:
      return kOverflowName;
    case Atom::Kind::Symbol:
      break;
  }
  return {};
}

std::optional<Atom::Kind> function_from_name(std::string_view name) {
  for (const auto kind : {Atom::Kind::FloorDiv, Atom::Kind::Mod, Atom::Kind::Min, Atom::Kind::Max,
                          Atom::Kind::Overflow}) {
    if (function_name(kind) == name) return kind;
  }
  return std::nullopt;
}

// ASCII only: std::isalpha depends on the process's locale.
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_name_char(char c) {
  return is_name_start(c) || is_digit(c) || c == '.';
}

bool is_identifier(std::string_view name) {
  return !name.empty() && is_name_start(name[0]) &&
         std::all_of(name.begin(), name.end(), is_name_char) && !function_from_name(name);
}

void print_symbol(SymbolId id, std::span<const Symbol> table, std::string& out) {
  const auto i = static_cast<size_t>(id);
  if (id < 0 || i >= table.size() || table[i].name.empty()) {
    out += '$';
    out += std::to_string(id);
    return;
  }
  const std::string& name = table[i].name;
  if (is_identifier(name)) {
    out += name;
    return;
  }
  out += '"';
  for (const char c : name) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
}

void print_expr(const Expr& e, std::span<const Symbol> table, std::string& out);

void print_atom(const Atom& a, std::span<const Symbol> table, std::string& out) {
  if (a.kind() == Atom::Kind::Symbol) return print_symbol(a.symbol(), table, out);
  out += function_name(a.kind());
  if (a.kind() == Atom::Kind::Overflow) return;
  out += '(';
  print_expr(a.lhs(), table, out);
  out += ", ";
  print_expr(a.rhs(), table, out);
  out += ')';
}

std::string magnitude(int64_t v) {
  const std::string s = std::to_string(v);
  return v < 0 ? s.substr(1) : s;
}

void print_sign(int64_t v, bool first, std::string& out) {
  if (first) {
    if (v < 0) out += '-';
  } else {
    out += v < 0 ? " - " : " + ";
  }
}

void print_expr(const Expr& e, std::span<const Symbol> table, std::string& out) {
  bool first = true;
  for (const Term& t : e.terms()) {
    print_sign(t.coefficient, first, out);
    first = false;
    bool factor = false;
    if (t.coefficient != 1 && t.coefficient != -1) {
      out += magnitude(t.coefficient);
      factor = true;
    }
    for (const Atom& a : t.atoms()) {
      if (std::exchange(factor, true)) out += '*';
      print_atom(a, table, out);
    }
  }
  if (!first && e.constant() == 0) return;
  print_sign(e.constant(), first, out);
  out += magnitude(e.constant());
}

/// sum: product (('+' | '-') product)*   product: unary ('*' unary)*   unary: '-' unary | primary
/// primary: number | name | "name" | $id | function '(' sum ',' sum ')' | '(' sum ')'
class Parser {
 public:
  Parser(std::string_view text, std::span<const Symbol> table) : text_(text), table_(table) {}

  Result<Expr> parse() {
    RP_ASSIGN(Expr e, sum(0));
    skip_space();
    if (pos_ != text_.size()) return error("unexpected text");
    return e;
  }

 private:
  static constexpr int kMaxNesting = 2 * static_cast<int>(ExprAccess::kMaxDepth);

  Status error(const std::string& what) const {
    return invalid_model("expression '" + std::string(text_.substr(0, 200)) + "': " + what +
                         " at character " + std::to_string(pos_ + 1));
  }

  void skip_space() {
    while (pos_ < text_.size() && (text_[pos_] == ' ' || text_[pos_] == '\t')) ++pos_;
  }

  bool accept(char c) {
    skip_space();
    if (pos_ == text_.size() || text_[pos_] != c) return false;
    ++pos_;
    return true;
  }

  Result<Expr> sum(int nesting) {
    if (nesting > kMaxNesting) return error("nested too deeply");
    RP_ASSIGN(Expr e, product(nesting));
    for (;;) {
      const bool minus = !accept('+');
      if (minus && !accept('-')) return e;
      RP_ASSIGN(const Expr next, product(nesting));
      e = minus ? e - next : e + next;
    }
  }

  Result<Expr> product(int nesting) {
    bool negative = false;
    while (accept('-')) negative = !negative;
    RP_ASSIGN(Expr e, primary(nesting, negative));
    while (accept('*')) {
      bool minus = false;
      while (accept('-')) minus = !minus;
      RP_ASSIGN(const Expr next, primary(nesting, minus));
      e *= next;
    }
    return e;
  }

  /// The sign is part of a number, so that INT64_MIN can be parsed.
  Result<Expr> primary(int nesting, bool negative) {
    skip_space();
    if (pos_ == text_.size()) return error("unexpected end");
    const char c = text_[pos_];
    if (is_digit(c)) return number(negative);
    RP_ASSIGN(Expr e, unsigned_primary(c, nesting));
    return negative ? Expr(0) - e : e;
  }

  Result<Expr> unsigned_primary(char c, int nesting) {
    if (accept('(')) {
      RP_ASSIGN(Expr e, sum(nesting + 1));
      if (!accept(')')) return error("expected ')'");
      return e;
    }
    if (c == '$') return symbol_id();
    if (c == '"') return quoted();
    if (!is_name_start(c)) return error("expected a number, a name or '('");
    const size_t start = pos_;
    while (pos_ < text_.size() && is_name_char(text_[pos_])) ++pos_;
    const std::string_view name = text_.substr(start, pos_ - start);
    const auto function = function_from_name(name);
    if (!function) return find(name);
    return *function == Atom::Kind::Overflow ? Expr::overflow() : call(*function, nesting);
  }

  Result<Expr> call(Atom::Kind kind, int nesting) {
    if (!accept('(')) return error("expected '('");
    RP_ASSIGN(const Expr a, sum(nesting + 1));
    if (!accept(',')) return error("expected ','");
    RP_ASSIGN(const Expr b, sum(nesting + 1));
    if (!accept(')')) return error("expected ')'");
    if (kind == Atom::Kind::FloorDiv) return Expr::floordiv(a, b);
    if (kind == Atom::Kind::Mod) return Expr::mod(a, b);
    return kind == Atom::Kind::Min ? Expr::min(a, b) : Expr::max(a, b);
  }

  Result<int64_t> digits(bool negative) {
    int64_t v = 0;
    while (pos_ < text_.size() && is_digit(text_[pos_])) {
      const int64_t d = text_[pos_] - '0';
      if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, negative ? -d : d, &v)) {
        return error("number does not fit 64 bits");
      }
      ++pos_;
    }
    return v;
  }

  Result<Expr> number(bool negative) {
    RP_ASSIGN(const int64_t v, digits(negative));
    return Expr(v);
  }

  Result<Expr> symbol_id() {
    ++pos_;
    if (pos_ == text_.size() || !is_digit(text_[pos_])) return error("expected a symbol id");
    RP_ASSIGN(const int64_t id, digits(false));
    if (id > std::numeric_limits<SymbolId>::max()) return error("symbol id is too large");
    return Expr::symbol(static_cast<SymbolId>(id));
  }

  Result<Expr> quoted() {
    std::string name;
    for (++pos_; pos_ < text_.size() && text_[pos_] != '"'; ++pos_) {
      if (text_[pos_] == '\\' && pos_ + 1 < text_.size()) ++pos_;
      name += text_[pos_];
    }
    if (pos_ == text_.size()) return error("unterminated name");
    ++pos_;
    return find(name);
  }

  Result<Expr> find(std::string_view name) {
    for (size_t i = 0; i < table_.size(); ++i) {
      if (table_[i].name == name) return Expr::symbol(static_cast<SymbolId>(i));
    }
    return error("unknown symbol '" + std::string(name) + "'");
  }

  std::string_view text_;
  std::span<const Symbol> table_;
  size_t pos_ = 0;
};

}  // namespace

std::string Expr::str(std::span<const Symbol> table) const {
  std::string out;
  print_expr(*this, table, out);
  return out;
}

Result<Expr> Expr::parse(std::string_view text, std::span<const Symbol> table) {
  return Parser(text, table).parse();
}

}  // namespace reprise
