#include <algorithm>
#include <cmath>
#include <limits>

#include "apps/template/interpreter.h"
#include "apps/text/unicode.h"
#include "codegen/formats/quoted.h"

namespace reprise::text {

namespace {

Status wrong_operands(const std::string& op, const Value& a, const Value& b) {
  for (const Value* v : {&a, &b}) {
    if (v->is_undefined()) return invalid_input("'" + v->undefined_name() + "' is not defined");
  }
  return invalid_input("'" + op + "' cannot be applied to " + a.kind() + " and " + b.kind());
}

Status too_large() {
  return invalid_input("a number becomes larger than 64 bits can hold");
}

Result<Value> integer_operation(const std::string& op, int64_t a, int64_t b) {
  int64_t out = 0;
  bool over = false;
  if (op == "+") {
    over = __builtin_add_overflow(a, b, &out);
  } else if (op == "-") {
    over = __builtin_sub_overflow(a, b, &out);
  } else if (op == "*") {
    over = __builtin_mul_overflow(a, b, &out);
  } else if (op == "**") {
    if (b < 0) return Value::number(std::pow(static_cast<double>(a), static_cast<double>(b)));
    if (b > 64 && a != 0 && a != 1 && a != -1) return too_large();
    out = 1;
    const int64_t times = b > 64 ? 64 + b % 2 : b;
    for (int64_t i = 0; i < times; ++i) over = over || __builtin_mul_overflow(out, a, &out);
  } else {
    if (b == 0) return invalid_input("a division by zero");
    if (a == std::numeric_limits<int64_t>::min() && b == -1) return too_large();
    const int64_t rest = a % b;
    const bool down = rest != 0 && (rest < 0) != (b < 0);
    out = op == "//" ? a / b - (down ? 1 : 0) : rest + (down ? b : 0);
  }
  return over ? Result<Value>(too_large()) : Value::integer(out);
}

Result<Value> float_operation(const std::string& op, double a, double b) {
  if (op == "+") return Value::number(a + b);
  if (op == "-") return Value::number(a - b);
  if (op == "*") return Value::number(a * b);
  if (op == "**") return Value::number(std::pow(a, b));
  if (b == 0) return invalid_input("a division by zero");
  if (op == "/") return Value::number(a / b);
  if (op == "//") return Value::number(std::floor(a / b));
  const double rest = std::fmod(a, b);
  return Value::number(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

/// A text or a list several times.
Result<Value> repeated(const Value& value, int64_t times, Budget& budget) {
  const auto count = static_cast<size_t>(std::max<int64_t>(times, 0));
  const size_t size = value.is_text() ? value.str().size() : value.items().size();
  if (size > 0 && count > budget.limits().output / size)
    return invalid_input("a repeated value becomes too long");
  RP_TRY(budget.size(size * count));
  if (value.is_text()) {
    std::string out;
    out.reserve(size * count);
    for (size_t i = 0; i < count && size > 0; ++i) out += value.str();
    return Value::text(std::move(out));
  }
  RP_TRY(budget.step(size * count));
  Values out;
  for (size_t i = 0; i < count && size > 0; ++i)
    out.insert(out.end(), value.items().begin(), value.items().end());
  return Value::list(std::move(out));
}

}  // namespace

Result<Value> binary_of(const std::string& op, const Value& a, const Value& b, Budget& budget) {
  const auto i = a.as_integer(), j = b.as_integer();
  if (i && j && op != "/") return integer_operation(op, *i, *j);
  if (a.is_number() && b.is_number()) return float_operation(op, a.as_double(), b.as_double());
  if (op == "+" && a.is_text() && b.is_text()) {
    RP_TRY(budget.size(a.str().size() + b.str().size()));
    return Value::text(a.str() + b.str());
  }
  if (op == "+" && a.is_list() && b.is_list()) {
    RP_TRY(budget.step(a.items().size() + b.items().size()));
    Values out = a.items();
    out.insert(out.end(), b.items().begin(), b.items().end());
    return Value::list(std::move(out));
  }
  if (op == "*" && j && (a.is_text() || a.is_list())) return repeated(a, *j, budget);
  if (op == "*" && i && (b.is_text() || b.is_list())) return repeated(b, *i, budget);
  if (op == "%" && a.is_text())
    return unsupported("formatting of a text with '%' is not supported");
  return wrong_operands(op, a, b);
}

Result<Values> iterated(const Value& value, Budget& budget) {
  if (value.is_undefined()) return Values();
  if (value.is_list()) {
    RP_TRY(budget.step(value.items().size()));
    return value.items();
  }
  Values out;
  if (value.is_dict()) {
    RP_TRY(budget.step(value.members().members.size()));
    out.reserve(value.members().members.size());
    for (const auto& [key, member] : value.members().members) out.push_back(key);
    return out;
  }
  if (!value.is_text()) return invalid_input(std::string(value.kind()) + " cannot be iterated");
  RP_TRY(budget.step(value.str().size()));
  const std::string& text = value.str();
  for (size_t at = 0; at < text.size(); at += char_length(text[at]))
    out.push_back(Value::text(text.substr(at, char_length(text[at]))));
  return out;
}

Result<Value> member_of(const Value& object, const std::string& name) {
  if (object.is_undefined())
    return invalid_input("'" + object.undefined_name() + "' is not defined, so it has no '" + name +
                         "'");
  if (has_method(object, name)) return Value::function({name, nullptr, nullptr, true, object});
  return item_of(object, Value::text(name));
}

namespace {

Value loop_member(const LoopState& l, const std::string& name) {
  const size_t count = l.items->size();
  const auto number = [](size_t n) { return Value::integer(static_cast<int64_t>(n)); };
  if (name == "index") return number(l.index + 1);
  if (name == "index0") return number(l.index);
  if (name == "revindex") return number(count - l.index);
  if (name == "revindex0") return number(count - l.index - 1);
  if (name == "length") return number(count);
  if (name == "first") return Value::boolean(l.index == 0);
  if (name == "last") return Value::boolean(l.index + 1 == count);
  if (name == "depth") return number(1);  // of recursion, which is not supported
  if (name == "depth0") return number(0);
  if (name == "previtem" && l.index > 0) return (*l.items)[l.index - 1];
  if (name == "nextitem" && l.index + 1 < count) return (*l.items)[l.index + 1];
  return Value::undefined("loop." + name);
}

std::string index_name(const Value& index) {
  return std::string(formats::beginning_of(index.printed(), 80));
}

}  // namespace

Result<Value> item_of(const Value& object, const Value& index) {
  if (object.is_undefined()) {
    return invalid_input("'" + object.undefined_name() + "' is not defined, so it has no '" +
                         index_name(index) + "'");
  }
  if (object.is_dict()) {
    if (const Value* found = object.members().find(index)) return *found;
  } else if (const Namespace* names = object.as_namespace()) {
    for (const auto& [key, value] : names->members) {
      if (index.is_text() && key == index.str()) return value;
    }
  } else if (const LoopState* loop = object.as_loop()) {
    if (index.is_text()) return loop_member(*loop, index.str());
  } else if (const auto i = index.as_integer()) {
    if (object.is_list()) {
      const auto size = static_cast<int64_t>(object.items().size());
      const int64_t at = *i < 0 ? *i + size : *i;
      if (at >= 0 && at < size) return object.items()[static_cast<size_t>(at)];
    } else if (object.is_text()) {
      const std::vector<char32_t> chars = to_chars(object.str());
      const auto size = static_cast<int64_t>(chars.size());
      const int64_t at = *i < 0 ? *i + size : *i;
      if (at >= 0 && at < size) return Value::text(to_utf8(chars[static_cast<size_t>(at)]));
    }
  } else if (index.is_text() && has_method(object, index.str())) {
    return Value::function({index.str(), nullptr, nullptr, true, object});
  }
  return Value::undefined(index_name(index));
}

Result<bool> contains(const Value& container, const Value& value) {
  if (container.is_undefined()) return false;
  if (container.is_dict()) return container.members().find(value) != nullptr;
  if (container.is_list()) {
    const Values& items = container.items();
    return std::any_of(items.begin(), items.end(), [&](const Value& v) { return v.equals(value); });
  }
  if (container.is_text() && value.is_text())
    return container.str().find(value.str()) != std::string::npos;
  return invalid_input(std::string("'in' cannot look for ") + value.kind() + " in " +
                       container.kind());
}

}  // namespace reprise::text
