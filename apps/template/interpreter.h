// Executes templates.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/template/chat_template.h"
#include "apps/template/syntax.h"

namespace reprise::text {

/// The variables of a block; a name that it lacks is looked for in the block around it.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<std::string, Value>> names;

  const Value* find(const std::string& name) const;
  void set(const std::string& name, Value value);
};

/// The arguments of a call.
struct Arguments {
  Values values;
  std::vector<std::pair<std::string, Value>> named;

  /// Argument `index` or the one of that name; null if there is neither.
  const Value* get(size_t index, std::string_view name) const;
};

/// What one rendering may still do.
class Budget {
 public:
  explicit Budget(const TemplateLimits& limits) : limits_(limits) {}
  Status step(uint64_t steps = 1) {
    steps_ += steps;
    if (steps_ <= limits_.steps) return {};
    return invalid_input("the template takes more than " + std::to_string(limits_.steps) +
                         " steps");
  }
  /// Of a text or list that is made.
  Status size(size_t bytes) {
    if (bytes > limits_.output)
      return invalid_input("a text becomes longer than " + std::to_string(limits_.output) +
                           " bytes");
    return step(bytes / 64);
  }
  const TemplateLimits& limits() const { return limits_; }

 private:
  TemplateLimits limits_;
  uint64_t steps_ = 0;
};

class Interpreter {
 public:
  explicit Interpreter(const ChatOptions& options) : options_(options), budget_(options.limits) {}
  void set(const std::string& name, Value value) { global_.set(name, std::move(value)); }
  Result<std::string> run(const Node& body);

 private:
  enum class Flow : unsigned char { Next, Break, Continue };

  Result<Flow> execute(const Node& node, Scope& scope, std::string& out);
  Result<Flow> execute_all(const Node& body, Scope& scope, std::string& out);
  Result<Flow> branch(const Node& node, Scope& scope, std::string& out);
  Result<Flow> loop(const Node& node, Scope& scope, std::string& out);
  Result<Flow> with(const Node& node, Scope& scope, std::string& out);
  Result<Flow> filtered(const Node& node, Scope& scope, std::string& out);
  Status set_member(const Node& node, Scope& scope);
  Status assign(const std::vector<std::string>& names, const Value& value, Scope& scope);
  Status append(std::string& out, std::string_view text);
  Result<Values> loop_items(const Node& node, Scope& scope);

  Result<Value> evaluate(const Node& node, Scope& scope);
  Result<Value> evaluate_here(const Node& node, Scope& scope);
  Result<Value> evaluate_parts(const Node& node, Scope& scope);
  Result<Value> name(const Node& node, Scope& scope);
  Result<Value> dict(const Node& node, Scope& scope);
  Result<Value> slice(const Node& node, Scope& scope);
  Result<Value> compare(const Node& node, Scope& scope);
  Result<Value> concat(const Node& node, Scope& scope);
  Result<Value> call(const Node& node, Scope& scope);
  Result<Value> call_macro(const Function& f, const Arguments& args);
  Result<Value> call_global(const Function& f, const Arguments& args);
  Result<Arguments> arguments(const Node& node, Scope& scope);
  Scope& new_scope(Scope* parent);
  /// Forgets the scopes from the one with this number on, unless a macro may refer to one.
  void leave_scopes(size_t first, size_t macros);

  const ChatOptions& options_;
  Budget budget_;
  Scope global_;
  std::deque<Scope> scopes_;  // macros refer to them
  size_t macros_ = 0;         // how many were defined
  std::deque<Namespace> namespaces_;
  size_t depth_ = 0;    // of calls
  size_t nesting_ = 0;  // of statements and expressions
};

Result<Value> apply_filter(const std::string& name, const Value& value, const Arguments& args,
                           Budget& budget);
Result<bool> apply_test(const std::string& name, const Value& value, const Arguments& args);
/// Items of a list, characters of a text, keys of a dict; what else cannot be iterated is an error.
Result<Values> iterated(const Value& value, Budget& budget);
/// object.name and object[index].
Result<Value> member_of(const Value& object, const std::string& name);
Result<Value> item_of(const Value& object, const Value& index);
Result<Value> binary_of(const std::string& op, const Value& a, const Value& b, Budget& budget);
Result<bool> contains(const Value& container, const Value& value);
/// A method of a text, dict, list or loop.
Result<Value> call_method(const Value& self, const std::string& name, const Arguments& args,
                          Budget& budget);
bool has_method(const Value& self, const std::string& name);
Result<std::string> formatted_time(int64_t seconds, std::string_view format);

// Texts as Python sees them: characters, not bytes.
bool is_python_space(char32_t c);
std::string_view stripped(std::string_view text, const Value* chars, bool left, bool right);
std::string replaced(std::string_view text, std::string_view from, std::string_view to,
                     int64_t most = -1);

}  // namespace reprise::text
