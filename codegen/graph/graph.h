// Graph IR: what the importer makes, passes rewrite and lowering consumes. Semantics of the core
// operators: codegen/graph/semantics.md.
//
// A graph is a list of nodes in topological order over values in SSA form. Shapes are expressions
// over the graph's symbols from the first day; a value's shape is known (possibly as fresh symbols)
// after inference. Constants are values with data and no producer.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/attrs.h"
#include "runtime/base/expr.h"
#include "runtime/base/tensor.h"
#include "runtime/plan/plan.h"

namespace reprise::graph {

using ValueId = int32_t;
inline constexpr ValueId kNone = -1;  // an omitted optional input or output

class Graph;

struct Node {
  std::string op;      // ONNX operator name; core operators keep the ONNX name of their meaning
  std::string domain;  // "" is the default domain
  int64_t opset = 0;   // version of the domain that the attributes follow; 0 for core form
  std::string name;    // the model's, or "Op(first output)" when it had none
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  AttrMap attrs;
  std::vector<std::pair<std::string, std::shared_ptr<Graph>>> subgraphs;  // If, Loop, Scan
  std::vector<std::string>
      origins;  // names of the model's nodes that this node stands for; never empty
};

struct Value {
  std::string name;  // unique in the graph
  DType dtype = DType::Invalid;
  bool has_shape = false;
  Shape shape;
  std::optional<HostTensor> constant;
  /// Contents of a small integer tensor as expressions (shape arithmetic), row-major; rank 0 or 1.
  std::optional<std::vector<Expr>> elements;
  Node* producer = nullptr;
  int32_t weight =
      -1;  // constants: index of the raw initialiser it is identical to, -1 if computed
};

/// Two dims that inference could neither prove equal nor tell apart: the session refuses a run in
/// which they differ. Every use of the one stands for the other.
struct DimGuard {
  Expr a, b;
  std::string node;  // the node that needs it, for the message
};

class Graph {
 public:
  std::string name;
  std::vector<Symbol> symbols;
  std::vector<plan::SymbolSource> symbol_sources;  // parallel; inputs' dims, or filled by lowering
  std::vector<DimGuard> equal_dims;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;

  const std::vector<Value>& values() const { return values_; }
  Value& value(ValueId id) { return values_[static_cast<size_t>(id)]; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }
  ValueId add_value(std::string name, DType dtype,
                    Shape shape);         // has_shape = true; name made unique
  ValueId add_unknown(std::string name);  // dtype and shape to be inferred
  ValueId add_constant(std::string name, HostTensor data);

  std::list<std::unique_ptr<Node>>& nodes() { return nodes_; }
  const std::list<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  /// Appends, or inserts before `before`. Sets producers; origins default to the node's own name.
  Node* add_node(Node n, Node* before = nullptr);
  void erase_node(Node* n);  // its outputs must be unused
  /// Every use of `from` (nodes' inputs, graph outputs) becomes `to`.
  void replace_uses(ValueId from, ValueId to);
  std::vector<std::vector<Node*>> compute_uses()
      const;  // per value, with graph outputs not included
  bool is_output(ValueId v) const;
  SymbolId add_symbol(Symbol s, plan::SymbolSource source);
  std::string unique_name(const std::string& base);

 private:
  std::vector<Value> values_;
  std::list<std::unique_ptr<Node>> nodes_;
  std::unordered_map<std::string, int> names_;
};

/// SSA, order, arity, known dtypes and shapes; core form after decomposition when `core` is set.
Status verify(const Graph& g, bool core);
/// Deterministic text; parse() reads it back to an identical graph. Constants up to 16 elements are
/// written in full, larger ones as dtype, shape and hash, with the data in `blobs` when given.
std::string print(const Graph& g);
struct ConstantPool;  // maps hashes to tensors, so that text with large constants parses back
Result<std::unique_ptr<Graph>> parse(std::string_view text, const ConstantPool* pool = nullptr);

}  // namespace reprise::graph
