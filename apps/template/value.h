// The values that templates compute with: those of Python that Jinja's templates see.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "codegen/formats/json.h"
#include "runtime/base/status.h"

namespace reprise::text {

class Value;
using Values = std::vector<Value>;
struct Dict;
struct Function;
struct Namespace;
struct LoopState;

/// Lists and dictionaries cannot be changed once they are made, so values have no circles.
struct ListValue;

class Value {
 public:
  struct None {};
  /// A variable or member that is not there, with its name for messages.
  struct Undefined {
    std::string name;
  };

  Value() : v_(Undefined{}) {}
  static Value undefined(std::string name) { return Value(V(Undefined{std::move(name)})); }
  static Value none() { return Value(V(None{})); }
  static Value boolean(bool b) { return Value(V(b)); }
  static Value integer(int64_t i) { return Value(V(i)); }
  static Value number(double d) { return Value(V(d)); }
  static Value text(std::string s) {
    return Value(V(std::make_shared<const std::string>(std::move(s))));
  }
  static Value list(Values items, bool tuple = false);
  static Value dict(std::vector<std::pair<Value, Value>> members);
  static Value function(Function f);
  static Value names(Namespace* n) { return Value(V(n)); }
  static Value loop(std::shared_ptr<const LoopState> l) { return Value(V(std::move(l))); }
  static Value from_json(const formats::Json& json);

  bool is_undefined() const { return std::holds_alternative<Undefined>(v_); }
  bool is_none() const { return std::holds_alternative<None>(v_); }
  bool is_boolean() const { return std::holds_alternative<bool>(v_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(v_); }
  bool is_float() const { return std::holds_alternative<double>(v_); }
  bool is_number() const { return is_boolean() || is_integer() || is_float(); }
  bool is_text() const { return std::holds_alternative<TextPtr>(v_); }
  bool is_list() const { return std::holds_alternative<ListPtr>(v_); }
  bool is_dict() const { return std::holds_alternative<DictPtr>(v_); }

  /// The value, which must be of that kind.
  const std::string& str() const { return *std::get<TextPtr>(v_); }
  const Values& items() const;
  const Dict& members() const { return *std::get<DictPtr>(v_); }
  const std::string& undefined_name() const { return std::get<Undefined>(v_).name; }
  bool flag() const { return std::get<bool>(v_); }
  double as_double() const;
  /// Null or nothing for other kinds. A boolean is an integer, as in Python.
  std::optional<int64_t> as_integer() const;
  const Function* as_function() const;
  Namespace* as_namespace() const;
  const LoopState* as_loop() const;

  bool truth() const;
  /// Levels of lists and dictionaries in it.
  size_t depth() const;
  /// Name of the kind, for messages.
  const char* kind() const;

  /// As str() of Python.
  std::string printed() const;
  /// As repr() of Python.
  void append_repr(std::string& out) const;
  bool equals(const Value& o) const;
  /// Less, equal or more; nothing if the kinds have no order.
  std::optional<int> compare(const Value& o) const;

 private:
  using TextPtr = std::shared_ptr<const std::string>;
  using ListPtr = std::shared_ptr<const ListValue>;
  using DictPtr = std::shared_ptr<const Dict>;
  using V =
      std::variant<Undefined, None, bool, int64_t, double, TextPtr, ListPtr, DictPtr,
                   std::shared_ptr<const Function>, Namespace*, std::shared_ptr<const LoopState>>;
  explicit Value(V v) : v_(std::move(v)) {}
  V v_;
};

struct ListValue {
  Values items;
  bool tuple = false;
  size_t depth = 1;
};

struct Dict {
  std::vector<std::pair<Value, Value>> members;
  size_t depth = 1;
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> members;
};

struct LoopState {
  size_t index = 0;
  std::shared_ptr<const Values> items;
  size_t nesting = 0;  // of the items
};

struct Node;
struct Scope;

/// A macro, a function that all templates have, or a method of a value.
struct Function {
  std::string name;
  const Node* macro = nullptr;
  Scope* scope = nullptr;  // where the macro was defined
  bool method = false;
  Value self;
};

/// json.dumps with ensure_ascii=False; `indent` < 0: on one line.
Status append_json(const Value& value, int64_t indent, bool sort_keys, std::string& out,
                   int64_t level = 0);
std::string printed_float(double d);

}  // namespace reprise::text
