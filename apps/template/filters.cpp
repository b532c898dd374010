#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "apps/template/interpreter.h"
#include "apps/text/unicode.h"

namespace reprise::text {

namespace {

struct FilterCall {
  const std::string& name;
  const Value& value;
  const Arguments& args;
  Budget& budget;

  bool flag(size_t index, std::string_view key, bool otherwise) const {
    const Value* v = args.get(index, key);
    return v == nullptr ? otherwise : v->truth();
  }
  Result<Values> items() const { return iterated(value, budget); }
  Result<Value> method(const std::string& method_name) const {
    return call_method(Value::text(value.printed()), method_name, args, budget);
  }
};

using Filter = Result<Value> (*)(const FilterCall&);

/// "a.b.0" of an object, as `attribute` of several filters.
Result<Value> attribute_of(const Value& object, const Value& path) {
  if (!path.is_text()) return item_of(object, path);
  Value at = object;
  std::string_view rest = path.str();
  while (true) {
    const size_t dot = rest.find('.');
    const std::string part(rest.substr(0, dot));
    int64_t number = 0;
    const auto end = std::from_chars(part.data(), part.data() + part.size(), number);
    const bool is_number =
        !part.empty() && end.ec == std::errc() && end.ptr == part.data() + part.size();
    if (at.is_undefined()) return at;
    RP_ASSIGN(at, item_of(at, is_number ? Value::integer(number) : Value::text(part)));
    if (dot == std::string_view::npos) return at;
    rest = rest.substr(dot + 1);
  }
}

/// A key to compare by: texts without their case unless `case_sensitive`.
Result<Value> sort_key(const Value& item, const Value* attribute, bool case_sensitive) {
  Value key = item;
  if (attribute != nullptr && !attribute->is_none()) {
    RP_ASSIGN(key, attribute_of(item, *attribute));
  }
  return key.is_text() && !case_sensitive ? Value::text(lower_case(key.str())) : key;
}

Result<Value> sorted(const FilterCall& c) {
  RP_ASSIGN(const Values items, c.items());
  const bool case_sensitive = c.flag(1, "case_sensitive", false);
  std::vector<std::pair<Value, size_t>> keys;
  keys.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    RP_ASSIGN(Value key, sort_key(items[i], c.args.get(2, "attribute"), case_sensitive));
    if (i > 0 && !key.compare(keys[0].first))
      return invalid_input(std::string("sort cannot compare ") + key.kind() + " with " +
                           keys[0].first.kind());
    keys.emplace_back(std::move(key), i);
  }
  RP_TRY(c.budget.step(items.size() * 8));
  const bool reverse = c.flag(0, "reverse", false);
  std::stable_sort(keys.begin(), keys.end(), [&](const auto& a, const auto& b) {
    const int order = a.first.compare(b.first).value_or(0);
    return reverse ? order > 0 : order < 0;
  });
  Values out;
  out.reserve(items.size());
  for (const auto& [key, i] : keys) out.push_back(items[i]);
  return Value::list(std::move(out));
}

Result<Value> unique(const FilterCall& c) {
  RP_ASSIGN(const Values items, c.items());
  Values seen, out;
  for (const Value& item : items) {
    RP_ASSIGN(Value key,
              sort_key(item, c.args.get(1, "attribute"), c.flag(0, "case_sensitive", false)));
    RP_TRY(c.budget.step(1 + seen.size() / 16));
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& s) { return s.equals(key); }))
      continue;
    seen.push_back(std::move(key));
    out.push_back(item);
  }
  return Value::list(std::move(out));
}

Result<Value> extreme(const FilterCall& c) {
  RP_ASSIGN(const Values items, c.items());
  if (items.empty()) return Value::undefined(c.name + " of an empty list");
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    const bool case_sensitive = c.flag(0, "case_sensitive", false);
    RP_ASSIGN(const Value a, sort_key(items[i], c.args.get(1, "attribute"), case_sensitive));
    RP_ASSIGN(const Value b, sort_key(items[best], c.args.get(1, "attribute"), case_sensitive));
    const auto order = a.compare(b);
    if (!order) return invalid_input(c.name + " cannot compare its items");
    if (c.name == "max" ? *order > 0 : *order < 0) best = i;
  }
  return items[best];
}

/// select, reject, selectattr and rejectattr.
Result<Value> selected(const FilterCall& c) {
  RP_ASSIGN(const Values items, c.items());
  const bool by_attribute = c.name.ends_with("attr");
  const bool wanted = c.name.starts_with("select");
  const size_t first = by_attribute ? 1 : 0;
  if (by_attribute && c.args.values.empty())
    return invalid_input(c.name + " needs the name of a member");
  Arguments rest;
  for (size_t i = first + 1; i < c.args.values.size(); ++i) rest.values.push_back(c.args.values[i]);
  Values out;
  for (const Value& item : items) {
    Value value = item;
    if (by_attribute) {
      RP_ASSIGN(value, attribute_of(item, c.args.values[0]));
    }
    bool holds = value.truth();
    if (c.args.values.size() > first) {
      if (!c.args.values[first].is_text())
        return invalid_input(c.name + " needs the name of a test");
      RP_ASSIGN(holds, apply_test(c.args.values[first].str(), value, rest));
    }
    RP_TRY(c.budget.step());
    if (holds == wanted) out.push_back(item);
  }
  return Value::list(std::move(out));
}

Result<Value> mapped(const FilterCall& c) {
  RP_ASSIGN(const Values items, c.items());
  const Value* attribute = c.args.values.empty() ? c.args.get(0, "attribute") : nullptr;
  const Value* otherwise = c.args.values.empty() ? c.args.get(1, "default") : nullptr;
  Values out;
  out.reserve(items.size());
  Arguments rest;
  for (size_t i = 1; i < c.args.values.size(); ++i) rest.values.push_back(c.args.values[i]);
  rest.named = c.args.named;
  for (const Value& item : items) {
    if (attribute != nullptr) {
      RP_ASSIGN(Value value, attribute_of(item, *attribute));
      if (value.is_undefined() && otherwise != nullptr) value = *otherwise;
      out.push_back(std::move(value));
      continue;
    }
    if (c.args.values.empty() || !c.args.values[0].is_text())
      return invalid_input("map needs an attribute or the name of a filter");
    RP_ASSIGN(out.emplace_back(), apply_filter(c.args.values[0].str(), item, rest, c.budget));
  }
  return Value::list(std::move(out));
}

Result<Value> joined(const FilterCall& c) {
  RP_ASSIGN(const Values items, c.items());
  const Value* separator = c.args.get(0, "d");
  const Value* attribute = c.args.get(1, "attribute");
  const std::string between = separator == nullptr ? std::string() : separator->printed();
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    Value item = items[i];
    if (attribute != nullptr) {
      RP_ASSIGN(item, attribute_of(item, *attribute));
    }
    if (i > 0) out += between;
    out += item.printed();
    RP_TRY(c.budget.size(out.size()));
  }
  return Value::text(std::move(out));
}

Result<Value> length(const FilterCall& c) {
  size_t count = 0;
  if (c.value.is_text())
    count = count_chars(c.value.str());
  else if (c.value.is_list())
    count = c.value.items().size();
  else if (c.value.is_dict())
    count = c.value.members().members.size();
  else if (!c.value.is_undefined())
    return invalid_input(std::string(c.value.kind()) + " has no length");
  return Value::integer(static_cast<int64_t>(count));
}

Result<Value> end_item(const FilterCall& c) {
  RP_ASSIGN(const Values items, c.items());
  if (items.empty()) return Value::undefined(c.name + " of an empty list");
  return c.name == "first" ? items.front() : items.back();
}

Result<Value> reversed(const FilterCall& c) {
  RP_ASSIGN(Values items, c.items());
  std::reverse(items.begin(), items.end());
  if (!c.value.is_text()) return Value::list(std::move(items));
  std::string out;
  for (const Value& item : items) out += item.str();
  return Value::text(std::move(out));
}

Result<Value> to_list(const FilterCall& c) {
  RP_ASSIGN(Values items, c.items());
  return Value::list(std::move(items));
}

Result<Value> dict_items(const FilterCall& c) {
  if (c.value.is_undefined()) return Value::list({});
  if (!c.value.is_dict()) return invalid_input(c.name + " needs a dict");
  RP_ASSIGN(Value items, call_method(c.value, "items", {}, c.budget));
  if (c.name == "items") return items;
  Values pairs = items.items();
  const bool by_value =
      c.args.get(1, "by") != nullptr && c.args.get(1, "by")->equals(Value::text("value"));
  const auto key = [&](const Value& pair) {
    const Value& v = pair.items()[by_value ? 1 : 0];
    return v.is_text() && !c.flag(0, "case_sensitive", false) ? Value::text(lower_case(v.str()))
                                                              : v;
  };
  std::stable_sort(pairs.begin(), pairs.end(), [&](const Value& a, const Value& b) {
    return key(a).compare(key(b)).value_or(0) < 0;
  });
  if (c.flag(2, "reverse", false)) std::reverse(pairs.begin(), pairs.end());
  return Value::list(std::move(pairs));
}

Result<Value> json_text(const FilterCall& c) {
  const Value* indent = c.args.get(0, "indent");
  const Value* separators = c.args.get(1, "separators");
  if (separators != nullptr && !separators->is_none())
    return unsupported("separators of tojson are not supported");
  const int64_t spaces = indent == nullptr ? -1 : indent->as_integer().value_or(-1);
  if (spaces > 64) return invalid_input("tojson can indent by at most 64 spaces");
  std::string out;
  RP_TRY(append_json(c.value, spaces, c.flag(2, "sort_keys", false), out));
  RP_TRY(c.budget.size(out.size()));
  return Value::text(std::move(out));
}

Result<Value> with_default(const FilterCall& c) {
  const bool missing = c.value.is_undefined() || (c.flag(1, "boolean", false) && !c.value.truth());
  if (!missing) return c.value;
  const Value* otherwise = c.args.get(0, "default_value");
  return otherwise == nullptr ? Value::text("") : *otherwise;
}

Result<Value> to_integer(const FilterCall& c) {
  const Value* otherwise = c.args.get(0, "default");
  const Value fallback = otherwise == nullptr ? Value::integer(0) : *otherwise;
  if (const auto i = c.value.as_integer()) return Value::integer(*i);
  double real = 0;
  if (c.value.is_float()) {
    real = c.value.as_double();
  } else if (c.value.is_text()) {
    const std::string text(stripped(c.value.str(), nullptr, true, true));
    int64_t i = 0;
    const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
    const char* const end = text.data() + text.size();
    const auto whole = std::from_chars(begin, end, i);
    if (whole.ec == std::errc() && whole.ptr == end) return Value::integer(i);
    const auto read = std::from_chars(begin, end, real);
    if (read.ec != std::errc() || read.ptr != end) return fallback;
  } else {
    return fallback;
  }
  if (!(std::fabs(real) < 9.2e18)) return fallback;
  return Value::integer(static_cast<int64_t>(real));
}

Result<Value> to_float(const FilterCall& c) {
  const Value* otherwise = c.args.get(0, "default");
  if (c.value.is_number()) return Value::number(c.value.as_double());
  if (c.value.is_text()) {
    const std::string_view text = stripped(c.value.str(), nullptr, true, true);
    double real = 0;
    const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
    const auto read = std::from_chars(begin, text.data() + text.size(), real);
    if (read.ec == std::errc() && read.ptr == text.data() + text.size()) return Value::number(real);
  }
  return otherwise == nullptr ? Value::number(0) : *otherwise;
}

Result<Value> absolute(const FilterCall& c) {
  if (!c.value.is_number()) return invalid_input("abs needs a number");
  const auto i = c.value.as_integer();
  if (!i) return Value::number(std::fabs(c.value.as_double()));
  if (*i == std::numeric_limits<int64_t>::min())
    return invalid_input("abs of a number that is too large");
  return Value::integer(*i < 0 ? -*i : *i);
}

Result<Value> sum(const FilterCall& c) {
  RP_ASSIGN(const Values items, c.items());
  const Value* start = c.args.get(1, "start");
  const Value* attribute = c.args.get(0, "attribute");
  Value total = start == nullptr ? Value::integer(0) : *start;
  for (const Value& item : items) {
    Value value = item;
    if (attribute != nullptr && !attribute->is_none()) {
      RP_ASSIGN(value, attribute_of(item, *attribute));
    }
    RP_ASSIGN(total, binary_of("+", total, value, c.budget));
  }
  return total;
}

Result<Value> indented(const FilterCall& c) {
  const Value* width = c.args.get(0, "width");
  std::string spaces(4, ' ');
  if (width != nullptr && width->is_text())
    spaces = width->str();
  else if (width != nullptr)
    spaces.assign(static_cast<size_t>(std::clamp<int64_t>(width->as_integer().value_or(4), 0, 256)),
                  ' ');
  const bool blank = c.flag(2, "blank", false);
  RP_ASSIGN(const Value lines,
            call_method(Value::text(c.value.printed() + "\n"), "splitlines", {}, c.budget));
  std::string out;
  for (size_t i = 0; i < lines.items().size(); ++i) {
    const std::string& line = lines.items()[i].str();
    if (i > 0) out += "\n";
    if (i == 0 ? c.flag(1, "first", false) : blank || !line.empty()) out += spaces;
    out += line;
    RP_TRY(c.budget.size(out.size()));
  }
  return Value::text(std::move(out));
}

Result<Value> trimmed(const FilterCall& c) {
  return c.method("strip");
}
Result<Value> as_text(const FilterCall& c) {
  return Value::text(c.value.printed());
}
Result<Value> same_method(const FilterCall& c) {
  return c.method(c.name);
}

Result<Value> titled(const FilterCall& c) {
  // A word begins after a space, a hyphen or an opening bracket.
  std::string out;
  bool begins = true;
  const std::string text = c.value.printed();
  for (size_t i = 0; i < text.size(); i += char_length(text[i])) {
    const char32_t ch = char_at(text, i);
    const std::string_view one = std::string_view(text).substr(i, char_length(text[i]));
    if (begins)
      out += upper_case(one);
    else
      append_lower(out, one);
    begins = is_python_space(ch) || ch == '-' || ch == '(' || ch == '{' || ch == '[' || ch == '<';
  }
  return Value::text(std::move(out));
}

Result<Value> escaped(const FilterCall& c) {
  std::string out;
  for (const char ch : c.value.printed()) {
    if (ch == '&')
      out += "&amp;";
    else if (ch == '<')
      out += "&lt;";
    else if (ch == '>')
      out += "&gt;";
    else if (ch == '\'')
      out += "&#39;";
    else if (ch == '"')
      out += "&#34;";
    else
      out += ch;
  }
  RP_TRY(c.budget.size(out.size()));
  return Value::text(std::move(out));
}

struct NamedFilter {
  std::string_view name;
  Filter call;
};

constexpr NamedFilter kFilters[] = {
    {"abs", absolute},
    {"capitalize", same_method},
    {"count", length},
    {"d", with_default},
    {"default", with_default},
    {"dictsort", dict_items},
    {"e", escaped},
    {"escape", escaped},
    {"first", end_item},
    {"float", to_float},
    {"indent", indented},
    {"int", to_integer},
    {"items", dict_items},
    {"join", joined},
    {"last", end_item},
    {"length", length},
    {"list", to_list},
    {"lower", same_method},
    {"map", mapped},
    {"max", extreme},
    {"min", extreme},
    {"reject", selected},
    {"rejectattr", selected},
    {"replace", same_method},
    {"reverse", reversed},
    {"safe", as_text},
    {"select", selected},
    {"selectattr", selected},
    {"sort", sorted},
    {"string", as_text},
    {"sum", sum},
    {"title", titled},
    {"tojson", json_text},
    {"trim", trimmed},
    {"unique", unique},
    {"upper", same_method},
};

Result<bool> compared(const std::string& name, const Value& value, const Arguments& args) {
  const Value* other = args.get(0, "other");
  if (other == nullptr) return invalid_input("test '" + name + "' needs a value");
  if (name == "eq" || name == "equalto" || name == "==") return value.equals(*other);
  if (name == "ne" || name == "!=") return !value.equals(*other);
  if (name == "in") return contains(*other, value);
  if (name == "sameas") return value.equals(*other) && std::string(value.kind()) == other->kind();
  const auto order = value.compare(*other);
  if (!order)
    return invalid_input(std::string(value.kind()) + " cannot be compared with " + other->kind());
  if (name == "lt" || name == "lessthan" || name == "<") return *order < 0;
  if (name == "le" || name == "<=") return *order <= 0;
  if (name == "gt" || name == "greaterthan" || name == ">") return *order > 0;
  return *order >= 0;
}

bool is_comparison(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "eq", "equalto", "==", "ne", "!=",          "in", "sameas", "lt", "lessthan",
      "<",  "le",      "<=", "gt", "greaterthan", ">",  "ge",     ">="};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace

Result<Value> apply_filter(const std::string& name, const Value& value, const Arguments& args,
                           Budget& budget) {
  const auto* at = std::find_if(std::begin(kFilters), std::end(kFilters),
                                [&](const NamedFilter& f) { return f.name == name; });
  if (at == std::end(kFilters)) return unsupported("the filter '" + name + "' is not supported");
  return at->call({name, value, args, budget});
}

Result<bool> apply_test(const std::string& name, const Value& value, const Arguments& args) {
  if (is_comparison(name)) return compared(name, value, args);
  if (name == "defined") return !value.is_undefined();
  if (name == "undefined") return value.is_undefined();
  if (name == "none") return value.is_none();
  if (name == "string") return value.is_text();
  if (name == "number") return value.is_number();
  if (name == "integer") return value.is_integer();
  if (name == "float") return value.is_float();
  if (name == "boolean") return value.is_boolean();
  if (name == "true") return value.is_boolean() && value.flag();
  if (name == "false") return value.is_boolean() && !value.flag();
  if (name == "mapping") return value.is_dict();
  if (name == "sequence" || name == "iterable") {
    return value.is_list() || value.is_dict() || value.is_text() || value.is_undefined();
  }
  if (name == "callable") return value.as_function() != nullptr;
  if (name == "odd" || name == "even" || name == "divisibleby") {
    const Value* by = args.get(0, "num");
    const auto divisor =
        name == "divisibleby" && by != nullptr ? by->as_integer() : std::optional<int64_t>(2);
    const auto i = value.as_integer();
    if (!i || !divisor || *divisor == 0 || *divisor == -1)
      return invalid_input("test '" + name + "' needs integers");
    return (*i % *divisor == 0) == (name != "odd");
  }
  if (name == "lower" || name == "upper") {
    Budget budget{TemplateLimits()};
    RP_ASSIGN(const Value holds,
              call_method(Value::text(value.printed()), "is" + name, {}, budget));
    return holds.truth();
  }
  return unsupported("the test '" + name + "' is not supported");
}

}  // namespace reprise::text
