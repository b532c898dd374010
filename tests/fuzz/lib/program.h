// A random test: a graph as statements, the sizes of its symbols and what its inputs hold. The
// text form is the graph text of tests/agreement, so that a failure can be pasted there.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "tests/support/random_values.h"

namespace reprise::fuzz {

struct Program {
  struct Input {
    std::string name;
    DType dtype = DType::F32;
    std::vector<std::string> dims;  // numbers and names of symbols
  };
  struct Constant {
    std::string name;
    HostTensor data;
  };
  struct Node {
    std::vector<std::string> outputs;  // empty: an omitted output
    std::string op;
    AttrMap attrs;
    std::vector<std::string> inputs;  // empty: an omitted input
    int64_t opset = 0;
  };
  test::Heading heading;
  std::vector<Input> inputs;
  std::vector<Constant> constants;
  std::vector<Node> nodes;
  std::vector<std::string> outputs;

  /// Without bodies: nodes that have any are an error.
  static Result<Program> from(const graph::Graph& g, const test::Heading& heading);
  static Result<Program> parse(const std::string& text);
  std::string str() const;
  /// Without what no output needs.
  void remove_unused();
};

}  // namespace reprise::fuzz
