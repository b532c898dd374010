// A random test: a graph as statements, the sizes of its symbols and what its inputs hold. The
// text form is the graph text of tests/agreement, so that a failure can be pasted there.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/graph/graph.h"
#include "tests/support/random_values.h"

namespace reprise::fuzz {

/// The statements of a graph or of a body.
struct Block {
  struct Input {
    std::string name;  // empty: an omitted capture
    DType dtype = DType::F32;
    std::vector<std::string> dims;  // numbers, names of symbols and expressions
  };
  struct Constant {
    std::string name;
    HostTensor data;
  };
  struct Node {
    std::vector<std::string> outputs;  // empty: an omitted output
    std::string domain, op;
    AttrMap attrs;
    std::vector<std::string> inputs;  // empty: an omitted input
    int64_t opset = 0;
    // Nodes with bodies have types, and their last inputs are what the bodies capture.
    std::vector<std::string> types;  // per output: "float32[n,4]"
    std::vector<std::string> labels;
    std::vector<Block> bodies;
  };
  /// A size of what a node with bodies gives, or of what its iterations pass on.
  struct Symbol {
    std::string name;
    std::string source;  // a result; empty for what iterations pass on
    int axis = 0;
  };
  std::vector<Symbol> symbols;
  std::vector<Input> inputs, captures;
  std::vector<Constant> constants;
  std::vector<Node> nodes;
  std::vector<std::string> outputs;
  bool is_body = false;  // its inputs have positions, whether or not it uses them

  /// Without what no output needs. What a body returns is needed.
  void remove_unused();
  /// Nodes, those of bodies included.
  size_t count_nodes() const;
};

struct Program : Block {
  test::Heading heading;

  static Result<Program> from(const graph::Graph& g, const test::Heading& heading);
  static Result<Program> parse(const std::string& text);
  std::string str() const;
};

}  // namespace reprise::fuzz
