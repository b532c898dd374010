// Derives symbols from others, and checks the guards once the values of their symbols are known.
#include <algorithm>

#include "runtime/plan/bind.h"

namespace reprise::plan {
namespace {

/// Describes each symbol of an expression: "batch is 3 (dimension 0 of input 'x')". Derived symbols
/// are described by the symbols that they follow from.
class Origins {
 public:
  Origins(const Interface& io, std::span<const int64_t> symbols) : io_(io), symbols_(symbols) {}

  std::string of(const Expr& e) {
    add(e);
    std::string text;
    for (const SymbolId id : found_) text += (text.empty() ? "" : ", ") + describe(id);
    return text;
  }

 private:
  void add(const Expr& e) {
    const std::vector<SymbolId> used = e.symbols();
    for (const SymbolId id : used) {
      const SymbolSource& source = io_.sources[static_cast<size_t>(id)];
      if (source.kind == SymbolSource::Kind::Derived) {
        add(source.value);
      } else if (std::find(found_.begin(), found_.end(), id) == found_.end()) {
        found_.push_back(id);
      }
    }
  }

  std::string describe(SymbolId id) const {
    const auto i = static_cast<size_t>(id);
    const SymbolSource& source = io_.sources[i];
    std::string text = "'" + io_.symbols[i].name + "'";
    if (i < symbols_.size() && symbols_[i] != kUnbound)
      text += " is " + std::to_string(symbols_[i]);
    const auto index = static_cast<size_t>(source.index);
    if (source.kind == SymbolSource::Kind::StateLength)
      return text + " (the length of the state '" + io_.states[index].name + "')";
    if (source.kind != SymbolSource::Kind::InputDim) return text + " (computed by the model)";
    return text + " (dimension " + std::to_string(source.axis) + " of input '" +
           io_.inputs[index].name + "')";
  }

  const Interface& io_;
  std::span<const int64_t> symbols_;
  std::vector<SymbolId> found_;
};

/// "dimension 0 of 'x' is 3, where 'batch' is 3 (dimension 0 of input 'x')"
std::string side(const Interface& io, const Expr& e, const std::string& what, int64_t value,
                 std::span<const int64_t> symbols) {
  const auto symbol = e.as_symbol();
  const bool derived =
      symbol && io.sources[static_cast<size_t>(*symbol)].kind == SymbolSource::Kind::Derived;
  if (what.empty() && symbol && !derived) return Origins(io, symbols).of(e);
  std::string text = what.empty() ? e.str(io.symbols) : what;
  if (e.is_const() && what.empty()) return text;
  text += " is " + std::to_string(value);
  if (e.is_const()) return text;
  if (!what.empty() && !e.as_symbol()) text += " (" + e.str(io.symbols) + ")";
  return text + ", where " + Origins(io, symbols).of(e);
}

bool holds(const DimGuard& guard, int64_t a, int64_t b) {
  switch (guard.kind) {
    case DimGuard::Kind::Equal:
      return a == b;
    case DimGuard::Kind::Broadcast:
      return a == b || a == 1 || b == 1;
    case DimGuard::Kind::BroadcastTo:
      return a == b || a == 1;
    case DimGuard::Kind::AtLeast:
      return a >= b;
  }
  return false;
}

/// What the guard needs of `a`, if `b` is a number.
std::string need_of_first(DimGuard::Kind kind, int64_t b) {
  const std::string number = std::to_string(b);
  if (kind == DimGuard::Kind::Equal) return "it must be " + number;
  if (kind == DimGuard::Kind::AtLeast) return "it must be at least " + number;
  return "it must be " + number + " or 1";
}

std::string need(DimGuard::Kind kind) {
  switch (kind) {
    case DimGuard::Kind::Equal:
      return "they must be equal";
    case DimGuard::Kind::Broadcast:
      return "they must be equal, or one of them must be 1";
    case DimGuard::Kind::BroadcastTo:
      return "they must be equal, or the first must be 1";
    case DimGuard::Kind::AtLeast:
      return "the first must not be smaller";
  }
  return {};
}

}  // namespace

void derive_symbols(const Interface& io, std::vector<int64_t>& symbols) {
  for (size_t s = 0; s < symbols.size(); ++s) {
    if (io.sources[s].kind != SymbolSource::Kind::Derived || symbols[s] != kUnbound) continue;
    if (!is_bound(io.sources[s].value, symbols)) continue;
    const auto v = io.sources[s].value.eval(symbols);
    if (v.ok()) symbols[s] = *v;
  }
}

std::string describe_size(const Interface& io, const Expr& e, std::span<const int64_t> symbols) {
  if (e.is_const()) return {};
  return e.str(io.symbols) + ", where " + Origins(io, symbols).of(e);
}

Status check_guards(const Interface& io, std::span<const int64_t> symbols) {
  for (const DimGuard& guard : io.guards) {
    if (!is_bound(guard.a, symbols) || !is_bound(guard.b, symbols)) continue;
    RP_ASSIGN(const int64_t a, guard.a.eval(symbols));
    RP_ASSIGN(const int64_t b, guard.b.eval(symbols));
    if (holds(guard, a, b)) continue;
    const std::string first =
        "node '" + guard.node + "': " + side(io, guard.a, guard.a_is, a, symbols);
    if (guard.b.is_const() && guard.b_is.empty())
      return invalid_input(first + "; " + need_of_first(guard.kind, b)).about(guard.node);
    return invalid_input(first + ", and " + side(io, guard.b, guard.b_is, b, symbols) + "; " +
                         need(guard.kind))
        .about(guard.node);
  }
  return {};
}

}  // namespace reprise::plan
