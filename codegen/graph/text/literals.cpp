#include "codegen/graph/text/literals.h"

#include <charconv>

#include "codegen/graph/text/text.h"

namespace reprise::graph::text {

Result<Expr> Literals::expr(const std::string& s) {
  Result<Expr> e = Expr::parse(s, symbols_);
  if (!e.ok()) return in_.error(e.status().message());
  const std::vector<SymbolId> symbols = e->symbols();  // "$2" denotes symbol 2
  for (const SymbolId id : symbols) {
    if (static_cast<size_t>(id) >= symbols_.size())
      return in_.error("there is no symbol $" + std::to_string(id));
  }
  return e;
}

Result<std::vector<Expr>> Literals::exprs(char close) {
  RP_ASSIGN(const std::vector<std::string> items, in_.items(close));
  std::vector<Expr> out;
  for (const std::string& item : items) {
    RP_ASSIGN(Expr e, expr(item));
    out.push_back(std::move(e));
  }
  return out;
}

Result<std::string> Literals::type_name(int depth) {
  std::string name(in_.peek_word());
  if (name.empty() || depth > 3) return in_.error("a type is missing");
  in_.take_word(name);
  for (std::string separator = "("; in_.take(separator); separator = ",") {
    RP_ASSIGN(const std::string inner, type_name(depth + 1));
    name += separator + inner;
  }
  if (name.find('(') == std::string::npos) return name;
  RP_TRY(in_.expect(")"));
  return name + ")";
}

Result<DType> Literals::dtype() {
  RP_ASSIGN(const std::string name, type_name());
  const std::optional<DType> t = dtype_from_name(name);
  if (!t) return in_.error("'" + name + "' is not a dtype");
  return *t;
}

Result<HostTensor> Literals::tensor() {
  RP_ASSIGN(const DType t, dtype());
  return tensor_of(t);
}

Result<HostTensor> Literals::tensor_of(DType t) {
  RP_TRY(in_.expect("["));
  RP_ASSIGN(const std::vector<std::string> items, in_.items(']'));
  std::vector<int64_t> dims;
  for (const std::string& item : items) {
    RP_ASSIGN(const Expr e, expr(item));
    if (!e.is_const()) return in_.error("dimension " + item + " of a constant is not a number");
    dims.push_back(e.value());
  }
  if (!in_.take("#")) {
    RP_TRY(in_.expect("{"));
    RP_ASSIGN(const std::vector<std::string> contents, in_.items('}'));
    Result<HostTensor> r = read_contents(t, std::move(dims), contents);
    if (!r.ok()) return in_.error(r.status().message());
    return r;
  }
  const std::string word(in_.peek_word());
  in_.take_word(word);
  uint64_t hash = 0;
  auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), hash, 16);
  if (code != std::errc() || end != word.data() + word.size()) {
    return in_.error("'" + word + "' is not a hash");
  }
  auto it = pool_ ? pool_->tensors.find(hash) : decltype(pool_->tensors.find(hash)){};
  if (!pool_ || it == pool_->tensors.end()) {
    return in_.error("constant #" + word + " is not in the pool");
  }
  if (it->second.dtype() != t || it->second.dims() != dims) {
    return in_.error("constant #" + word + " is " +
                     describe(it->second.dtype(), it->second.dims()));
  }
  return it->second;
}

Status Literals::attributes(AttrMap& attrs) {
  do {
    RP_ASSIGN(std::string key, in_.name());
    RP_TRY(in_.expect("="));
    if (attrs.has(key)) return in_.error("attribute " + key + " is given twice");
    RP_ASSIGN(Attr value, attribute());
    attrs.set(std::move(key), std::move(value));
  } while (in_.take(","));
  return in_.expect(">");
}

Result<Attr> Literals::attribute() {
  if (in_.next_is_quote()) {
    RP_ASSIGN(std::string s, in_.quoted());
    return Attr(std::move(s));
  }
  if (in_.take("(")) {
    RP_ASSIGN(std::vector<Expr> list, exprs(')'));
    return Attr(std::move(list));
  }
  if (in_.take("[")) return list();
  const std::string word(in_.peek_word());
  if (word == "floats" || word == "strings") {
    in_.take_word(word);
    RP_TRY(in_.expect("["));
    RP_TRY(in_.expect("]"));
    return word == "floats" ? Attr(std::vector<float>{}) : Attr(std::vector<std::string>{});
  }
  if (dtype_from_name(word)) {
    RP_ASSIGN(HostTensor t, tensor());
    return Attr(std::move(t));
  }
  std::string number;
  RP_TRY(number_text(number));
  return number_attr(number);
}

Status Literals::number_text(std::string& out) {
  out = std::string(in_.peek_word());
  in_.take_word(out);
  if (!out.empty() && out.back() == 'e' && in_.take("+")) {
    const std::string exponent(in_.peek_word());
    in_.take_word(exponent);
    out += exponent;
  }
  return out.empty() ? in_.error("expected an attribute's value") : Status();
}

Result<Attr> Literals::number_attr(const std::string& s) {
  if (is_real(s)) {
    RP_ASSIGN(const float v, real(s));
    return Attr(v);
  }
  RP_ASSIGN(const int64_t v, integer(s));
  return Attr(v);
}

Result<float> Literals::real(const std::string& s) {
  const Result<HostTensor> t = read_contents(DType::F32, {}, {s});
  if (!t.ok()) return in_.error(t.status().message());
  return t->data<float>()[0];
}

Result<int64_t> Literals::integer(const std::string& s) {
  const Result<HostTensor> t = read_contents(DType::I64, {}, {s});
  if (!t.ok()) return in_.error(t.status().message());
  return t->data<int64_t>()[0];
}

Result<Attr> Literals::list() {
  const bool strings = in_.next_is_quote();
  RP_ASSIGN(std::vector<std::string> items, in_.items(']'));
  if (strings) return Attr(std::move(items));
  std::vector<float> reals;
  std::vector<int64_t> ints;
  const bool is_reals = !items.empty() && is_real(items[0]);
  for (const std::string& item : items) {
    if (is_reals) {
      RP_ASSIGN(const float v, real(item));
      reals.push_back(v);
    } else {
      RP_ASSIGN(const int64_t v, integer(item));
      ints.push_back(v);
    }
  }
  return is_reals ? Attr(std::move(reals)) : Attr(std::move(ints));
}

}  // namespace reprise::graph::text
