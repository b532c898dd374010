#include "apps/template/interpreter.h"

#include <algorithm>
#include <array>
#include <utility>

#include "apps/text/unicode.h"

namespace reprise::text {

namespace {

constexpr size_t kMostNesting = 100;  // of lists and dictionaries
constexpr int64_t kMostRange = 100'000;
constexpr size_t kMostLevels = 1000;  // of statements and expressions, which take the stack

/// Counts levels as long as it lives.
struct Level {
  explicit Level(size_t& n) : count(n) { ++count; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
  ~Level() { --count; }
  Status check() const {
    if (count <= kMostLevels) return {};
    return invalid_input("macros and expressions are nested too deeply");
  }
  size_t& count;
};

Result<Value> range_of(const Arguments& args, Budget& budget) {
  std::array<int64_t, 3> n{0, 0, 1};
  if (args.values.empty() || args.values.size() > 3)
    return invalid_input("range() takes one to three numbers");
  for (size_t i = 0; i < args.values.size(); ++i) {
    const auto value = args.values[i].as_integer();
    if (!value)
      return invalid_input("range() takes integers, but found " +
                           std::string(args.values[i].kind()));
    n[args.values.size() == 1 ? 1 : i] = *value;
  }
  const auto [first, last, step] = n;
  if (step == 0) return invalid_input("the step of range() must not be 0");
  const long double exact = (static_cast<long double>(last) - static_cast<long double>(first)) /
                            static_cast<long double>(step);
  if (exact > kMostRange)
    return invalid_input("range() has more than " + std::to_string(kMostRange) + " items");
  Values out;
  for (int64_t i = first; step > 0 ? i < last : i > last; i += step)
    out.push_back(Value::integer(i));
  RP_TRY(budget.step(out.size()));
  return Value::list(std::move(out));
}

bool is_global(const std::string& name) {
  static constexpr std::array<std::string_view, 5> kNames{"range", "dict", "namespace",
                                                          "raise_exception", "strftime_now"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace

const Value* Scope::find(const std::string& name) const {
  for (const Scope* s = this; s != nullptr; s = s->parent) {
    for (const auto& [key, value] : s->names) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(const std::string& name, Value value) {
  for (auto& [key, old] : names) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  names.emplace_back(name, std::move(value));
}

const Value* Arguments::get(size_t index, std::string_view name) const {
  if (index < values.size()) return &values[index];
  const auto at =
      std::find_if(named.begin(), named.end(), [&](const auto& n) { return n.first == name; });
  return at == named.end() ? nullptr : &at->second;
}

Result<std::string> Interpreter::run(const Node& body) {
  std::string out;
  RP_TRY(execute(body, new_scope(&global_), out).status());
  return out;
}

Scope& Interpreter::new_scope(Scope* parent) {
  Scope& s = scopes_.emplace_back();
  s.parent = parent;
  return s;
}

void Interpreter::leave_scopes(size_t first, size_t macros) {
  if (macros_ == macros) scopes_.resize(first);
}

Status Interpreter::append(std::string& out, std::string_view text) {
  RP_TRY(budget_.step(1 + text.size() / 64));
  if (out.size() + text.size() > budget_.limits().output)
    return budget_.size(out.size() + text.size());
  out += text;
  return {};
}

Result<Interpreter::Flow> Interpreter::execute_all(const Node& body, Scope& scope,
                                                   std::string& out) {
  for (const NodePtr& child : body.children) {
    auto flow = execute(*child, scope, out);
    if (!flow.ok()) {
      const Status failed = flow.status();
      if (failed.message().starts_with("line ")) return failed;
      return failed.with_context("line " + std::to_string(child->line));
    }
    if (*flow != Flow::Next) return flow;
  }
  return Flow::Next;
}

Result<Interpreter::Flow> Interpreter::execute(const Node& node, Scope& scope, std::string& out) {
  const Level level(nesting_);
  RP_TRY(level.check());
  RP_TRY(budget_.step());
  switch (node.kind) {
    case Syntax::Body:
      return execute_all(node, scope, out);
    case Syntax::Data:
      RP_TRY(append(out, node.text));
      return Flow::Next;
    case Syntax::Output: {
      RP_ASSIGN(const Value value, evaluate(*node.children[0], scope));
      RP_TRY(append(out, value.printed()));
      return Flow::Next;
    }
    case Syntax::If:
      return branch(node, scope, out);
    case Syntax::For:
      return loop(node, scope, out);
    case Syntax::Set: {
      RP_ASSIGN(const Value value, evaluate(*node.children[0], scope));
      RP_TRY(assign(node.names, value, scope));
      return Flow::Next;
    }
    case Syntax::SetMember:
      RP_TRY(set_member(node, scope));
      return Flow::Next;
    case Syntax::SetBlock: {
      std::string text;
      RP_TRY(filtered(node, scope, text).status());
      scope.set(node.names[0], Value::text(std::move(text)));
      return Flow::Next;
    }
    case Syntax::Macro:
      ++macros_;
      scope.set(node.text, Value::function({node.text, &node, &scope, false, {}}));
      return Flow::Next;
    case Syntax::With:
      return with(node, scope, out);
    case Syntax::FilterBlock:
      return filtered(node, scope, out);
    case Syntax::Break:
      return Flow::Break;
    case Syntax::Continue:
      return Flow::Continue;
    default:
      return internal_error("an expression stands for a statement");
  }
}

Result<Interpreter::Flow> Interpreter::branch(const Node& node, Scope& scope, std::string& out) {
  size_t i = 0;
  for (; i + 1 < node.children.size(); i += 2) {
    RP_ASSIGN(const Value condition, evaluate(*node.children[i], scope));
    if (condition.truth()) return execute(*node.children[i + 1], scope, out);
  }
  return i < node.children.size() ? execute(*node.children[i], scope, out)
                                  : Result<Flow>(Flow::Next);
}

Result<Values> Interpreter::loop_items(const Node& node, Scope& scope) {
  RP_ASSIGN(const Value sequence, evaluate(*node.children[0], scope));
  RP_ASSIGN(Values items, iterated(sequence, budget_));
  if (node.children[1] == nullptr) return items;
  Values kept;
  Scope& inner = new_scope(&scope);
  for (Value& item : items) {
    RP_TRY(assign(node.names, item, inner));
    RP_ASSIGN(const Value condition, evaluate(*node.children[1], inner));
    if (condition.truth()) kept.push_back(std::move(item));
  }
  return kept;
}

Result<Interpreter::Flow> Interpreter::loop(const Node& node, Scope& scope, std::string& out) {
  RP_ASSIGN(Values all, loop_items(node, scope));
  if (all.empty()) {
    if (node.children[3] == nullptr) return Flow::Next;
    return execute(*node.children[3], new_scope(&scope), out);
  }
  const auto items = std::make_shared<const Values>(std::move(all));
  size_t nesting = 0;
  for (const Value& item : *items) nesting = std::max(nesting, item.depth());
  for (size_t i = 0; i < items->size(); ++i) {
    RP_TRY(budget_.step());
    const size_t scopes = scopes_.size(), macros = macros_;
    Scope& inner = new_scope(&scope);
    inner.set("loop", Value::loop(std::make_shared<const LoopState>(LoopState{i, items, nesting})));
    RP_TRY(assign(node.names, (*items)[i], inner));
    RP_ASSIGN(const Flow flow, execute(*node.children[2], inner, out));
    leave_scopes(scopes, macros);
    if (flow == Flow::Break) break;
  }
  return Flow::Next;
}

Result<Interpreter::Flow> Interpreter::with(const Node& node, Scope& scope, std::string& out) {
  Scope& inner = new_scope(&scope);
  for (size_t i = 0; i < node.names.size(); ++i) {
    RP_ASSIGN(Value value, evaluate(*node.children[i + 1], scope));
    inner.set(node.names[i], std::move(value));
  }
  return execute(*node.children[0], inner, out);
}

/// A block whose text goes through filters, which stand above a name without letters.
Result<Interpreter::Flow> Interpreter::filtered(const Node& node, Scope& scope, std::string& out) {
  std::string text;
  Scope& inner = new_scope(&scope);
  RP_TRY(execute(*node.children[0], inner, text).status());
  if (node.children[1] != nullptr) {
    inner.set("", Value::text(std::move(text)));
    RP_ASSIGN(const Value value, evaluate(*node.children[1], inner));
    text = value.printed();
  }
  RP_TRY(append(out, text));
  return Flow::Next;
}

Status Interpreter::set_member(const Node& node, Scope& scope) {
  const Value* object = scope.find(node.text);
  Namespace* const names = object == nullptr ? nullptr : object->as_namespace();
  if (names == nullptr)
    return invalid_input("'" + node.text + "' is no namespace, so its members cannot be set");
  RP_ASSIGN(Value value, evaluate(*node.children[0], scope));
  for (auto& [key, old] : names->members) {
    if (key != node.names[0]) continue;
    old = std::move(value);
    return {};
  }
  names->members.emplace_back(node.names[0], std::move(value));
  return {};
}

Status Interpreter::assign(const std::vector<std::string>& names, const Value& value,
                           Scope& scope) {
  if (names.size() == 1) {
    scope.set(names[0], value);
    return {};
  }
  RP_ASSIGN(Values parts, iterated(value, budget_));
  if (parts.size() != names.size()) {
    return invalid_input("there are " + std::to_string(parts.size()) + " values for " +
                         std::to_string(names.size()) + " names");
  }
  for (size_t i = 0; i < names.size(); ++i) scope.set(names[i], std::move(parts[i]));
  return {};
}

Result<Value> Interpreter::evaluate(const Node& node, Scope& scope) {
  const Level level(nesting_);
  RP_TRY(level.check());
  RP_TRY(budget_.step());
  auto value = evaluate_here(node, scope);
  if (value.ok() && value->depth() > kMostNesting)
    return invalid_input("lists or dicts are nested deeper than " + std::to_string(kMostNesting));
  return value;
}

Result<Value> Interpreter::evaluate_here(const Node& node, Scope& scope) {
  switch (node.kind) {
    case Syntax::Literal:
      return node.value;
    case Syntax::Name:
      return name(node, scope);
    case Syntax::Dict:
      return dict(node, scope);
    case Syntax::Slice:
      return slice(node, scope);
    case Syntax::Compare:
      return compare(node, scope);
    case Syntax::Concat:
      return concat(node, scope);
    case Syntax::Call:
      return call(node, scope);
    case Syntax::Choice: {
      RP_ASSIGN(const Value condition, evaluate(*node.children[0], scope));
      if (condition.truth()) return evaluate(*node.children[1], scope);
      return node.children[2] ? evaluate(*node.children[2], scope)
                              : Result<Value>(Value::undefined("an 'if' without 'else'"));
    }
    case Syntax::And:
    case Syntax::Or: {
      RP_ASSIGN(Value left, evaluate(*node.children[0], scope));
      return left.truth() == (node.kind == Syntax::And) ? evaluate(*node.children[1], scope)
                                                        : Result<Value>(std::move(left));
    }
    default:
      return evaluate_parts(node, scope);
  }
}

/// Expressions all of whose parts are evaluated first.
Result<Value> Interpreter::evaluate_parts(const Node& node, Scope& scope) {
  if (node.kind == Syntax::Filter || node.kind == Syntax::Test) {
    RP_ASSIGN(Arguments args, arguments(node, scope));
    RP_ASSIGN(const Value value, evaluate(*node.children[0], scope));
    if (node.kind == Syntax::Filter) return apply_filter(node.text, value, args, budget_);
    RP_ASSIGN(const bool holds, apply_test(node.text, value, args));
    return Value::boolean(holds != node.flag);
  }
  Values parts;
  parts.reserve(node.children.size());
  for (const NodePtr& child : node.children) {
    RP_ASSIGN(parts.emplace_back(), evaluate(*child, scope));
  }
  switch (node.kind) {
    case Syntax::List:
      return Value::list(std::move(parts));
    case Syntax::Tuple:
      return Value::list(std::move(parts), true);
    case Syntax::Member:
      return member_of(parts[0], node.text);
    case Syntax::Item:
      return item_of(parts[0], parts[1]);
    case Syntax::Binary:
      return binary_of(node.text, parts[0], parts[1], budget_);
    case Syntax::Unary: {
      if (node.text == "not") return Value::boolean(!parts[0].truth());
      if (!parts[0].is_number())
        return invalid_input("'" + node.text + "' needs a number, but found " + parts[0].kind());
      return binary_of(node.text, Value::integer(0), parts[0], budget_);
    }
    default:
      return internal_error("a statement stands for an expression");
  }
}

Result<Value> Interpreter::name(const Node& node, Scope& scope) {
  if (const Value* value = scope.find(node.text)) return *value;
  if (is_global(node.text)) return Value::function({node.text, nullptr, nullptr, false, {}});
  return Value::undefined(node.text);
}

Result<Value> Interpreter::dict(const Node& node, Scope& scope) {
  std::vector<std::pair<Value, Value>> members;
  for (size_t i = 0; i + 1 < node.children.size(); i += 2) {
    RP_ASSIGN(Value key, evaluate(*node.children[i], scope));
    RP_ASSIGN(Value value, evaluate(*node.children[i + 1], scope));
    if (key.is_list() || key.is_dict()) return invalid_input("a key must be a text or a number");
    RP_TRY(budget_.step(members.size() / 16));
    const auto old = std::find_if(members.begin(), members.end(),
                                  [&](const auto& m) { return m.first.equals(key); });
    if (old != members.end())
      old->second = std::move(value);
    else
      members.emplace_back(std::move(key), std::move(value));
  }
  return Value::dict(std::move(members));
}

Result<Value> Interpreter::slice(const Node& node, Scope& scope) {
  RP_ASSIGN(const Value object, evaluate(*node.children[0], scope));
  std::array<std::optional<int64_t>, 3> bounds;
  for (size_t i = 0; i < 3; ++i) {
    if (!node.children[i + 1]) continue;
    RP_ASSIGN(const Value bound, evaluate(*node.children[i + 1], scope));
    if (bound.is_none()) continue;
    bounds[i] = bound.as_integer();
    if (!bounds[i]) return invalid_input(std::string("a bound of a slice is ") + bound.kind());
  }
  if (object.is_undefined()) return object;
  if (!object.is_text() && !object.is_list())
    return invalid_input(std::string(object.kind()) + " has no parts that a slice could take");
  RP_ASSIGN(const Values items, iterated(object, budget_));
  const auto size = static_cast<int64_t>(items.size());
  const int64_t step = bounds[2].value_or(1);
  if (step == 0) return invalid_input("the step of a slice must not be 0");
  const auto place = [&](std::optional<int64_t> bound, int64_t otherwise) {
    if (!bound) return otherwise;
    const int64_t at = *bound < 0 ? *bound + size : *bound;
    return step > 0 ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
  };
  const int64_t first = place(bounds[0], step > 0 ? 0 : size - 1);
  const int64_t last = place(bounds[1], step > 0 ? size : -1);
  Values kept;
  for (int64_t i = first; step > 0 ? i < last : i > last;) {
    kept.push_back(items[static_cast<size_t>(i)]);
    if (step > size || -step > size) break;
    i += step;
  }
  if (object.is_list()) return Value::list(std::move(kept));
  std::string text;
  for (const Value& c : kept) text += c.str();
  return Value::text(std::move(text));
}

Result<Value> Interpreter::compare(const Node& node, Scope& scope) {
  RP_ASSIGN(Value left, evaluate(*node.children[0], scope));
  for (size_t i = 0; i < node.names.size(); ++i) {
    RP_ASSIGN(Value right, evaluate(*node.children[i + 1], scope));
    const std::string& op = node.names[i];
    bool holds = false;
    if (op == "==" || op == "!=") {
      holds = left.equals(right) == (op == "==");
    } else if (op == "in" || op == "not in") {
      RP_ASSIGN(const bool inside, contains(right, left));
      holds = inside == (op == "in");
    } else {
      const auto order = left.compare(right);
      if (!order) {
        return invalid_input("'" + op + "' cannot compare " + left.kind() + " with " +
                             right.kind());
      }
      holds = op == "<"    ? *order < 0
              : op == "<=" ? *order <= 0
              : op == ">"  ? *order > 0
                           : *order >= 0;
    }
    if (!holds) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Result<Value> Interpreter::concat(const Node& node, Scope& scope) {
  std::string text;
  for (const NodePtr& child : node.children) {
    RP_ASSIGN(const Value part, evaluate(*child, scope));
    text += part.printed();
    RP_TRY(budget_.size(text.size()));
  }
  return Value::text(std::move(text));
}

Result<Arguments> Interpreter::arguments(const Node& node, Scope& scope) {
  Arguments out;
  const size_t plain = node.children.size() - node.names.size();
  for (size_t i = 1; i < node.children.size(); ++i) {
    RP_ASSIGN(Value value, evaluate(*node.children[i], scope));
    if (i < plain)
      out.values.push_back(std::move(value));
    else
      out.named.emplace_back(node.names[i - plain], std::move(value));
  }
  return out;
}

Result<Value> Interpreter::call(const Node& node, Scope& scope) {
  RP_ASSIGN(const Value function, evaluate(*node.children[0], scope));
  RP_ASSIGN(const Arguments args, arguments(node, scope));
  const Function* f = function.as_function();
  if (f == nullptr) {
    if (function.is_undefined())
      return invalid_input("'" + function.undefined_name() + "' is not defined, but called");
    return invalid_input(std::string(function.kind()) + " is called, but is no function");
  }
  if (f->macro != nullptr) return call_macro(*f, args);
  if (f->method) return call_method(f->self, f->name, args, budget_);
  return call_global(*f, args);
}

Result<Value> Interpreter::call_macro(const Function& f, const Arguments& args) {
  const Node& macro = *f.macro;
  if (depth_ >= budget_.limits().depth)
    return invalid_input("macros call each other deeper than " + std::to_string(depth_));
  const size_t scopes = scopes_.size(), macros = macros_;
  Scope& scope = new_scope(f.scope);
  const size_t required = macro.names.size() - (macro.children.size() - 1);
  if (args.values.size() > macro.names.size())
    return invalid_input("macro '" + f.name + "' takes " + std::to_string(macro.names.size()) +
                         " arguments");
  for (size_t i = 0; i < macro.names.size(); ++i) {
    const Value* given = args.get(i, macro.names[i]);
    Value value = given != nullptr ? *given : Value::undefined(macro.names[i]);
    if (given == nullptr && i >= required) {
      RP_ASSIGN(value, evaluate(*macro.children[1 + i - required], scope));
    }
    scope.set(macro.names[i], std::move(value));
  }
  for (const auto& [name, value] : args.named) {
    if (std::find(macro.names.begin(), macro.names.end(), name) == macro.names.end())
      return invalid_input("macro '" + f.name + "' takes no argument '" + name + "'");
  }
  std::string out;
  ++depth_;
  const auto flow = execute(*macro.children[0], scope, out);
  --depth_;
  if (!flow.ok()) return flow.status();
  leave_scopes(scopes, macros);
  return Value::text(std::move(out));
}

Result<Value> Interpreter::call_global(const Function& f, const Arguments& args) {
  if (f.name == "range") return range_of(args, budget_);
  if (f.name == "raise_exception") {
    const Value* message = args.get(0, "message");
    return invalid_input("the template refuses this chat: " +
                         (message == nullptr ? std::string() : message->printed()));
  }
  if (f.name == "strftime_now") {
    const Value* format = args.get(0, "format");
    if (format == nullptr || !format->is_text())
      return invalid_input("strftime_now() takes a format");
    if (!options_.now)
      return invalid_input("the template asks for the time, which the options do not have");
    RP_ASSIGN(std::string text, formatted_time(*options_.now, format->str()));
    return Value::text(std::move(text));
  }
  std::vector<std::pair<Value, Value>> members;
  if (const Value* from = args.get(0, ""); from != nullptr && from->is_dict())
    members = from->members().members;
  if (f.name == "namespace") {
    Namespace& names = namespaces_.emplace_back();
    for (const auto& [key, value] : members) names.members.emplace_back(key.printed(), value);
    names.members.insert(names.members.end(), args.named.begin(), args.named.end());
    return Value::names(&names);
  }
  for (const auto& [key, value] : args.named) members.emplace_back(Value::text(key), value);
  return Value::dict(std::move(members));
}

}  // namespace reprise::text
