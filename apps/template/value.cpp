#include "apps/template/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "apps/text/unicode.h"

namespace reprise::text {

Value Value::list(Values items, bool tuple) {
  size_t deepest = 0;
  for (const Value& v : items) deepest = std::max(deepest, v.depth());
  return Value(
      V(std::make_shared<const ListValue>(ListValue{std::move(items), tuple, deepest + 1})));
}

Value Value::dict(std::vector<std::pair<Value, Value>> members) {
  size_t deepest = 0;
  for (const auto& [key, value] : members) deepest = std::max(deepest, value.depth());
  return Value(V(std::make_shared<const Dict>(Dict{std::move(members), deepest + 1})));
}

Value Value::function(Function f) {
  return Value(V(std::make_shared<const Function>(std::move(f))));
}

Value Value::from_json(const formats::Json& json) {
  using Kind = formats::Json::Kind;
  switch (json.kind()) {
    case Kind::Null:
      return none();
    case Kind::Boolean:
      return boolean(*json.boolean());
    case Kind::Integer:
      return integer(*json.integer());
    case Kind::Number:
      return number(*json.number());
    case Kind::Text:
      return text(std::string(*json.text()));
    case Kind::Array: {
      Values items;
      items.reserve(json.size());
      for (const formats::Json& item : json.items()) items.push_back(from_json(item));
      return list(std::move(items));
    }
    case Kind::Object:
      break;
  }
  std::vector<std::pair<Value, Value>> members;
  members.reserve(json.size());
  for (const formats::Json& m : json.items())
    members.emplace_back(text(std::string(m.key())), from_json(m));
  return dict(std::move(members));
}

const Values& Value::items() const {
  return std::get<ListPtr>(v_)->items;
}

double Value::as_double() const {
  if (is_float()) return std::get<double>(v_);
  return static_cast<double>(as_integer().value_or(0));
}

std::optional<int64_t> Value::as_integer() const {
  if (is_integer()) return std::get<int64_t>(v_);
  if (is_boolean()) return flag() ? 1 : 0;
  return std::nullopt;
}

const Function* Value::as_function() const {
  const auto* f = std::get_if<std::shared_ptr<const Function>>(&v_);
  return f == nullptr ? nullptr : f->get();
}

Namespace* Value::as_namespace() const {
  auto* const* n = std::get_if<Namespace*>(&v_);
  return n == nullptr ? nullptr : *n;
}

const LoopState* Value::as_loop() const {
  const auto* l = std::get_if<std::shared_ptr<const LoopState>>(&v_);
  return l == nullptr ? nullptr : l->get();
}

bool Value::truth() const {
  if (is_undefined() || is_none()) return false;
  if (is_boolean()) return flag();
  if (is_number()) return as_double() != 0;
  if (is_text()) return !str().empty();
  if (is_list()) return !items().empty();
  if (is_dict()) return !members().members.empty();
  return true;
}

size_t Value::depth() const {
  if (is_list()) return std::get<ListPtr>(v_)->depth;
  if (is_dict()) return members().depth;
  if (const Function* f = as_function()) return 1 + f->self.depth();
  if (const LoopState* l = as_loop()) return 1 + l->nesting;
  return 0;
}

const char* Value::kind() const {
  static constexpr std::array<const char*, 11> kNames{
      "an undefined value", "none",        "a boolean", "an integer",
      "a number",           "a text",      "a list",    "a dict",
      "a function",         "a namespace", "a loop"};
  return kNames[v_.index()];
}

namespace {

/// Digits and exponent of the shortest number that reads as `d`.
void append_digits(double d, std::string& digits, int& exponent) {
  std::array<char, 64> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), d, std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<size_t>(end.ptr - buffer.data()));
  const size_t e = text.find('e');
  for (const char c : text.substr(0, e)) {
    if (c != '.') digits += c;
  }
  const std::string_view power = text.substr(e + (text[e + 1] == '+' ? 2 : 1));
  std::from_chars(power.data(), power.data() + power.size(), exponent);
}

void append_hex(std::string& out, const char* prefix, char32_t c, int digits) {
  out += prefix;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
    out += "0123456789abcdef"[c >> shift & 0xF];
}

void append_text_repr(const std::string& text, std::string& out) {
  const bool single = text.find('\'') == std::string::npos || text.find('"') != std::string::npos;
  const char quote = single ? '\'' : '"';
  out += quote;
  for (size_t i = 0; i < text.size(); i += char_length(text[i])) {
    const char32_t c = char_at(text, i);
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == ' ' || !(is_other(c) || is_space(c))) {
      append_char(out, c);
    } else if (c < 0x100) {
      append_hex(out, "\\x", c, 2);
    } else if (c < 0x10000) {
      append_hex(out, "\\u", c, 4);
    } else {
      append_hex(out, "\\U", c, 8);
    }
  }
  out += quote;
}

void append_json_text(const std::string& text, std::string& out) {
  out += '"';
  for (const char c : text) {
    const auto b = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (b >= 0x20) {
      out += c;
    } else {
      static constexpr std::string_view kCodes = "btn?fr";
      if (b >= 8 && b <= 13 && b != 11) {
        out += '\\';
        out += kCodes[b - 8U];
      } else {
        append_hex(out, "\\u", b, 4);
      }
    }
  }
  out += '"';
}

}  // namespace

std::string printed_float(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  std::string digits;
  int exponent = 0;
  append_digits(std::fabs(d), digits, exponent);
  std::string out = std::signbit(d) ? "-" : "";
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (count > 1) out += "." + digits.substr(1);
    const int size = std::abs(exponent);
    return out + "e" + (exponent < 0 ? "-" : "+") + (size < 10 ? "0" : "") + std::to_string(size);
  }
  if (exponent < 0)
    return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1)
    return out + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  const size_t point = static_cast<size_t>(exponent) + 1;
  return out + digits.substr(0, point) + "." + digits.substr(point);
}

std::string Value::printed() const {
  if (is_text()) return str();
  if (is_undefined()) return {};
  std::string out;
  append_repr(out);
  return out;
}

void Value::append_repr(std::string& out) const {
  if (is_undefined()) {
    out += "Undefined";
  } else if (is_none()) {
    out += "None";
  } else if (is_boolean()) {
    out += flag() ? "True" : "False";
  } else if (is_integer()) {
    out += std::to_string(std::get<int64_t>(v_));
  } else if (is_float()) {
    out += printed_float(std::get<double>(v_));
  } else if (is_text()) {
    append_text_repr(str(), out);
  } else if (is_list()) {
    const ListValue& l = *std::get<ListPtr>(v_);
    out += l.tuple ? '(' : '[';
    for (size_t i = 0; i < l.items.size(); ++i) {
      if (i > 0) out += ", ";
      l.items[i].append_repr(out);
    }
    if (l.tuple && l.items.size() == 1) out += ',';
    out += l.tuple ? ')' : ']';
  } else if (is_dict()) {
    out += '{';
    for (size_t i = 0; i < members().members.size(); ++i) {
      const auto& [key, value] = members().members[i];
      if (i > 0) out += ", ";
      key.append_repr(out);
      out += ": ";
      value.append_repr(out);
    }
    out += '}';
  } else {
    out += std::string("<") + kind() + ">";
  }
}

bool Value::equals(const Value& o) const {
  if (is_number() && o.is_number()) {
    const auto a = as_integer(), b = o.as_integer();
    return a && b ? *a == *b : as_double() == o.as_double();
  }
  if (v_.index() != o.v_.index()) return false;
  if (is_undefined() || is_none()) return true;
  if (is_text()) return str() == o.str();
  if (is_list()) {
    return std::equal(items().begin(), items().end(), o.items().begin(), o.items().end(),
                      [](const Value& a, const Value& b) { return a.equals(b); });
  }
  if (is_dict()) {
    const auto& mine = members().members;
    return mine.size() == o.members().members.size() &&
           std::all_of(mine.begin(), mine.end(), [&](const auto& m) {
             const Value* other = o.members().find(m.first);
             return other != nullptr && m.second.equals(*other);
           });
  }
  return as_function() == o.as_function() && as_namespace() == o.as_namespace() &&
         as_loop() == o.as_loop();
}

std::optional<int> Value::compare(const Value& o) const {
  const auto order = [](auto a, auto b) { return a < b ? -1 : a > b ? 1 : 0; };
  if (is_number() && o.is_number()) {
    const auto a = as_integer(), b = o.as_integer();
    return a && b ? order(*a, *b) : order(as_double(), o.as_double());
  }
  if (is_text() && o.is_text()) return order(str().compare(o.str()), 0);
  if (!is_list() || !o.is_list()) return std::nullopt;
  const size_t both = std::min(items().size(), o.items().size());
  for (size_t i = 0; i < both; ++i) {
    if (items()[i].equals(o.items()[i])) continue;
    return items()[i].compare(o.items()[i]);
  }
  return order(items().size(), o.items().size());
}

const Value* Dict::find(const Value& key) const {
  const auto at = std::find_if(members.begin(), members.end(),
                               [&](const auto& m) { return m.first.equals(key); });
  return at == members.end() ? nullptr : &at->second;
}

const Value* Dict::find(std::string_view key) const {
  const auto at = std::find_if(members.begin(), members.end(), [&](const auto& m) {
    return m.first.is_text() && m.first.str() == key;
  });
  return at == members.end() ? nullptr : &at->second;
}

Status append_json(const Value& value, int64_t indent, bool sort_keys, std::string& out,
                   int64_t level) {
  const auto line = [&](int64_t deeper) {
    if (indent < 0) return;
    out += '\n';
    out.append(static_cast<size_t>(indent * (level + deeper)), ' ');
  };
  const char* const comma = indent < 0 ? ", " : ",";
  if (value.is_text()) {
    append_json_text(value.str(), out);
  } else if (value.is_none()) {
    out += "null";
  } else if (value.is_boolean()) {
    out += value.flag() ? "true" : "false";
  } else if (value.is_float()) {
    const double d = value.as_double();
    if (std::isnan(d))
      out += "NaN";
    else if (std::isinf(d))
      out += d < 0 ? "-Infinity" : "Infinity";
    else
      out += printed_float(d);
  } else if (value.is_integer()) {
    out += value.printed();
  } else if (value.is_list()) {
    out += '[';
    for (size_t i = 0; i < value.items().size(); ++i) {
      if (i > 0) out += comma;
      line(1);
      RP_TRY(append_json(value.items()[i], indent, sort_keys, out, level + 1));
    }
    if (!value.items().empty()) line(0);
    out += ']';
  } else if (value.is_dict()) {
    std::vector<const std::pair<Value, Value>*> members;
    members.reserve(value.members().members.size());
    for (const auto& m : value.members().members) members.push_back(&m);
    if (sort_keys) {
      std::stable_sort(members.begin(), members.end(), [](const auto* a, const auto* b) {
        return a->first.printed() < b->first.printed();
      });
    }
    out += '{';
    for (size_t i = 0; i < members.size(); ++i) {
      if (i > 0) out += comma;
      line(1);
      append_json_text(members[i]->first.printed(), out);
      out += ": ";
      RP_TRY(append_json(members[i]->second, indent, sort_keys, out, level + 1));
    }
    if (!members.empty()) line(0);
    out += '}';
  } else {
    return invalid_input(std::string(value.kind()) + " cannot be written as JSON");
  }
  return {};
}

}  // namespace reprise::text
