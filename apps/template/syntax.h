// Templates as trees.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/template/value.h"
#include "runtime/base/status.h"

namespace reprise::text {

enum class Syntax : unsigned char {
  // Statements. `children` are what is executed, unless something else is said.
  Body,
  Data,         // text
  Output,       // [expression]
  If,           // [condition, body, (condition, body)..., else body?]
  For,          // names; [items, condition or null, body, else body or null]
  Set,          // names; [expression]
  SetMember,    // text: the namespace, names[0]: its member; [expression]
  SetBlock,     // names; [body]; the filters of `children` from the second on
  Macro,        // text: its name, names: its arguments; [body, defaults of the last arguments...]
  With,         // names; [body, values...]
  FilterBlock,  // [filters..., body]
  Break,
  Continue,
  // Expressions
  Literal,  // value
  Name,     // text
  List,
  Tuple,
  Dict,    // [key, value, key, value...]
  Member,  // text; [object]: object.text
  Item,    // [object, index]
  Slice,   // [object, from, to, step]; any but the first may be null
  Call,    // [function, arguments...]; names: of the last arguments
  Filter,  // text; [value, arguments...]; names
  Test,    // text; [value, arguments...]; names; flag: negated
  Unary,   // text: "-", "+" or "not"
  Binary,  // text: the operator
  And,
  Or,
  Concat,
  Compare,  // names: operators; [first, second, ...]
  Choice,   // [condition, value, other or null]
};

struct Node {
  Syntax kind = Syntax::Body;
  int line = 0;
  bool flag = false;
  std::string text;
  std::vector<std::string> names;
  std::vector<std::unique_ptr<Node>> children;  // may be null
  Value value;
};
using NodePtr = std::unique_ptr<Node>;

struct Token {
  enum class Kind : unsigned char {
    Data,
    OutputBegin,
    OutputEnd,
    BlockBegin,
    BlockEnd,
    Name,
    Text,
    Integer,
    Float,
    Operator,
    End
  };
  Kind kind = Kind::End;
  std::string text;
  int line = 0;
};

/// Cuts a template; spaces around tags go as with trim_blocks and lstrip_blocks.
Result<std::vector<Token>> cut_template(std::string_view source);
Result<NodePtr> parse_template(std::string_view source);

}  // namespace reprise::text
